"""Data sets: Delta tables that say, in a descriptor of their own, what their rows and files are.

A data set is found by its location alone; whoever has rows for it, or wants some of it, needs to
know nothing else. It belongs to no pipeline and has no versions but Delta's.
"""
