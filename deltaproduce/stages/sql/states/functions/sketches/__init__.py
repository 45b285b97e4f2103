"""Sketches: states of approximate functions, a few kilobytes per group whatever its size.

This package holds the common form (`sketch`), and the sketches of distinct counts (`distinct`), of
quantiles (`quantiles`) and of the most frequent values (`frequent`), each with its function. It may
not know which rows a sketch is made of. The invariant: sketches are merged and never subtracted, so
a group that loses a row is recomputed.
"""
