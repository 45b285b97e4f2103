"""The local engine: rows on the driver, as Arrow tables.

No Spark in here: what these modules say of rows is what Spark says of them.
"""
