"""Kernels: operators and functions over whole columns, as Spark computes them in ANSI mode.

Each takes the Arrow type of its result, and arrays of equal length in the types that `analysis`
gives them. The invariant: nulls and values are Spark's, bit for bit; where Spark raises an error
for a row, a kernel raises an `EvaluationError` with Spark's name for it.
"""
