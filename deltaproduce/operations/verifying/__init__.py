"""Verifying: the checks of a store's tables, and their findings."""
