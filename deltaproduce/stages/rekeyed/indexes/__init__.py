"""Indexes: stages with one row for each row of another stage, under another key."""
