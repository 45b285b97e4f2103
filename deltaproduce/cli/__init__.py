"""The command ``deltaproduce``: what a store is asked to do, from a terminal.

A verb in `verbs` is a thin effect over the Store: it returns an `Answer`, which pure functions have
made, and `commands` prints it. The invariant: ``--help`` imports neither Spark, Arrow nor rich, so
modules here that verbs do not need until they run are imported where they are used.
"""
