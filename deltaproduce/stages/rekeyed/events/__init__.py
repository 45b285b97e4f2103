"""Stages of change events: the latest state of each key, or all its states with their validity."""
