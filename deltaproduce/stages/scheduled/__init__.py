"""Scheduled stages: the protocol of kinds whose rows tasks make, and which tasks are due at a date.

The invariant: a task runs only if it is due, and only when all its dependencies are present.
"""
