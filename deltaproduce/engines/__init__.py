"""Engines: operations on rows, implemented once in Arrow on the driver and once in Spark.

The modules here choose between the two, or hold what both share. They know no stage, version or
table of a store.
"""
