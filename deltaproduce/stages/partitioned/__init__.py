"""Partitioned stages: queries that tasks run, one partition at a time.

The expected partitions follow from the date alone, and the partitions of feeders that a task reads
follow from its query's text (`conditions`). The invariant: nothing here reads a row to find either.
"""
