"""Ordered functions in a step: computed from a group's values in order.

This package decides which groups to look up, and fills the results into the stage's rows
(`answers`), looks them up (`lookups`), and computes the functions (`kernels`), also in Spark's
tasks (`in_spark`). The values of a group are rows of a stage next to the aggregate (`multisets`),
keyed in a form with the same order (`encodings`). The invariant: an answer depends on the multiset
alone, and so on the group's rows, whatever their order.
"""
