"""Aggregate stages: one row a key, changed by what comes and goes, whatever the size of a group.

What is here: the functions (`agg`), the states that they keep (`measures`), what a stage computes
(`grouping`), how states become rows (`folding`), what a step does with them (`step`), and the kind.
What may not be here: anything of other kinds, and anything that knows versions or stores.
"""

from deltaproduce.stages.aggregates import agg

__all__ = ["agg"]
