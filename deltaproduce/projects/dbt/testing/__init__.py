"""Tests of dbt: data tests as rules and queries, unit tests as tests of pytest."""
