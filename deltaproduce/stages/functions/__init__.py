"""Stages that are a function, over the values of a key or over tables of many keys.

Nothing here reads or writes a store's tables.
"""
