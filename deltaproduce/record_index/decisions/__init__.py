"""Decisions about a record index and its table, without reading either. Pure."""
