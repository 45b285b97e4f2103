"""``python -m benchmarks.tpch``: TPC-H's 22 queries as views, beside recomputing them.

One store without a session has all queries as views. It loads all tables, then takes small and
large changes of the orders and their lines. After each step all views are compared with what DuckDB
computes from the same rows. The report is Markdown.
"""
