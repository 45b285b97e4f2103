"""Inputs: the files that a project's sources are read from, and which of them are new."""
