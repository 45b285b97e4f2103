"""Partitioned stages: queries that are run for one partition at a time, as tasks.

Which partitions are to exist follows from the date alone, and which partitions of its feeders a
task reads from its query's text (`conditions`). The invariant: nothing here reads a row to find
that out.
"""
