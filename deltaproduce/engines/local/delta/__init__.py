"""Delta tables without Spark: what delta-rs reads, writes and commits."""
