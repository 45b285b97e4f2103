"""Aggregate functions: the measures that each keeps, and how it computes its value from them.

This package holds their common form (`plans`), functions of counts (`counts`), of sums (`sums`) and
of sums of squares (`variances`), functions answered from a sorted multiset (`ordered`), functions
that merge a feeder's states (`partials`), and all by name (`catalogue`). It may not contain rows,
or how measures add up. The invariant: types and values are those of Spark's function of that name,
except that sums do not overflow on the way, and doubles are rounded once.
"""
