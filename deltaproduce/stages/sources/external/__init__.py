"""Sources that are existing Delta tables, read in place and never written."""
