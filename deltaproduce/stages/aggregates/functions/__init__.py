"""Aggregate functions: which measures each keeps, and what it makes of them.

What is here: what all of them are (`plans`), functions of counts (`counts`), of sums (`sums`) and
of sums of squares (`variances`), those that are answered from a sorted multiset (`ordered`), those
that merge what a feeder keeps (`partials`), and all by name (`catalogue`). What may not be here:
rows, and how measures are added up. The invariant: types and values are those of Spark's function
of that name, but that sums do not overflow on the way, and what is a double is rounded once.
"""
