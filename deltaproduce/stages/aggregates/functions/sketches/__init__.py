"""Sketches: what functions of estimates keep of each group, a few kilobytes whatever its size.

What is here: what all sketches are (`sketch`), those of how many different values there are
(`distinct`), of quantiles (`quantiles`), and of the most frequent values (`frequent`), each with
its function. What may not be here: which rows they are made of. The invariant: sketches are merged,
and never subtracted from, so a group that has lost a row is made again.
"""
