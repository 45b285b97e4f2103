"""Parquet files of tables, read without Spark: which row groups, and how much that is."""
