"""Exact numbers as whole columns, for computing sums, averages and variances.

This package holds numbers of any size (`numbers`), numbers of 64 bits (`whole`), their stored form
(`states`), and their conversion to doubles and decimals, rounded once (`rounding`). It may not
contain Spark, or anything that knows stages.
"""
