"""Verifying: what is looked for in the tables of a store, and what is said of what is found."""
