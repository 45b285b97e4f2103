"""Aggregate stages: one row per key, updated by added and removed rows, whatever a group's size.

This package holds what a stage computes (`grouping`), how states become rows (`folding`), how a
step uses them (`step`), and the kind; `states` beside it has the functions, and the states that
they keep. It may not contain anything of other kinds, or anything that knows versions or stores.
"""
