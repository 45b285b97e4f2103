"""Aggregate stages: one row per key, updated by added and removed rows, whatever a group's size.

This package holds the functions (`agg`), the states that they keep (`measures`), what a stage
computes (`grouping`), how states become rows (`folding`), how a step uses them (`step`), and the
kind. It may not contain anything of other kinds, or anything that knows versions or stores.
"""

from deltaproduce.stages.aggregates import agg

__all__ = ["agg"]
