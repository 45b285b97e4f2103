"""Parquet files of tables, read without Spark: choosing, reading and counting row groups."""
