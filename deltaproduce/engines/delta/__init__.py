"""Delta tables, whichever engine handles them: what is asked of them, and their logs."""
