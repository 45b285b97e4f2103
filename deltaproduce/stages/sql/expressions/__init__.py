"""Expressions: SQL over the columns of one row, with Spark's values in ANSI mode.

What is here: their text (`expression`), what it means in types (`terms`, by `analysis`), and what
it gives on the driver (`evaluation`) and in plain Python for the oracle (`model`).
"""
