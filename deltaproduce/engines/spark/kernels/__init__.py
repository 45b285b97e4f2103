"""Computations on rows in Spark: comparisons, feeds, checks and numbers."""
