"""What is computed of rows in Spark: what differs, what is fed, what is wrong, and numbers."""
