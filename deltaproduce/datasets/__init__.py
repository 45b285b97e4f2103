"""Data sets: Delta tables with a descriptor of their own, which says how files store their rows.

A data set is found by its location alone; its readers and writers need to know nothing else. It
belongs to no pipeline and has no versions but Delta's.
"""
