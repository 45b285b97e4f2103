"""Expressions: SQL over the columns of one row, with Spark's results in ANSI mode.

This package holds their text (`expression`), their typed terms (`terms`, built by `analysis`), and
their evaluation on the driver (`evaluation`) and in plain Python for the oracle (`model`).
"""
