"""The local engine: rows on the driver, as Arrow tables.

No Spark in here: these modules return the same results as Spark.
"""
