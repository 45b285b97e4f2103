"""Indexes: stages that have a row for each row of another, under another key."""
