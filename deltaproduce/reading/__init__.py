"""Reading: answers questions about versions; nothing is written, and nothing is produced."""
