"""Rows that are given: seeds and sources of dbt, their columns, types and keys."""
