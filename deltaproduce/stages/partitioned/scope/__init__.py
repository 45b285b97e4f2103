"""The scopes of tasks: from a date to the names in their queries, and the partitions they make."""
