"""Ordered functions in a step: answered from a group's values in their order.

What is here: which groups are looked up, and what their rows become in the stage's (`answers`), how
they are found (`lookups`), and what the functions make of them (`kernels`), in Spark's tasks too
(`in_spark`). The values of a group are rows of a stage beside the aggregate (`multisets`), whose
keys they are in a form of the same order (`encodings`). The invariant: an answer depends on the
multiset alone, and so on the group's rows, however they came.
"""
