"""What is decided about a record index and its table, without looking at either. Pure."""
