"""Descriptors: how the files of data sets and of stage content store rows."""
