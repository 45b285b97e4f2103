"""Scopes: what names in the queries of tasks mean at a date, and the expected partitions."""
