"""Exact numbers as whole columns: what sums, averages and variances are computed with.

What is here: numbers of any size (`numbers`), those of 64 bits (`whole`), what they are stored as
(`states`), and how they become doubles and decimals, rounded once (`rounding`). What may not be
here: Spark, and anything that knows stages.
"""
