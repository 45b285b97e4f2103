"""The scopes of tasks: from a date to the names in their queries, and their partitions."""
