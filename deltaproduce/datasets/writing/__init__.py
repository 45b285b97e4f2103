"""Writing: from rows that are given to files, and to the commits that make them a data set's."""
