"""Engines: what is done with rows, once in Arrow on the driver and once in Spark.

The modules here choose between the two, or hold what both share. No stage, version or table of a
store is known here.
"""
