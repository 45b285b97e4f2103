"""The command ``deltaproduce``: the operations of a store from a terminal.

A verb in `verbs` is a thin effect over the Store: it returns an `Answer`, which pure functions
compute, and `commands` prints it. The invariant: ``--help`` imports neither Spark, Arrow nor rich,
so modules that verbs need only when they run are imported where they are used.
"""
