"""Functions of text."""
