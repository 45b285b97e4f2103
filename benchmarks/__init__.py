"""Benchmarks: the cost of a version, against what users do without this library, in one run.

``python -m benchmarks --help`` lists the options; RESULTS.md has the last recorded run.
"""
