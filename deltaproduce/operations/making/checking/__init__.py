"""Checking a version that is computed, before it is written.

`gate` evaluates all checks of it. `evaluation` evaluates them over a version that exists. `samples`
are some of the rows that break one, and `origins` the keys of the batch that they come from.
"""
