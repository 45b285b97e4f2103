"""Inputs: the files of a project's sources, and which of them are new."""
