"""Kernels: what operators and functions do with whole columns, as Spark does in ANSI mode.

Each takes the Arrow type of its result, and arrays of one length in the types that `analysis` gives
them. The invariant: a null or a value stands where Spark has it, bit for bit; what Spark raises for
some row is an `EvaluationError` with the name that Spark has for it.
"""
