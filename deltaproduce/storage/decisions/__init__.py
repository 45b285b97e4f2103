"""Decisions about tables: pure, from their commits and the versions; nothing is read or written."""
