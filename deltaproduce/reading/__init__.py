"""Reading: what is asked of versions; nothing is written, and nothing is produced."""
