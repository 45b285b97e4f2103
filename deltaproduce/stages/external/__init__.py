"""Sources that are Delta tables of someone else, read in place and never written."""
