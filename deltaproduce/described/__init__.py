"""Descriptors: how files keep rows, of data sets and of the content of stages."""
