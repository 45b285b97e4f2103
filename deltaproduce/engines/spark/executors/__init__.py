"""Executors: what their Python has, what goes wrong in it, and rows that are lost with them."""
