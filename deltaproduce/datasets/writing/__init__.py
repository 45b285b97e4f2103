"""Writing: turns given rows into files, and into the commits that add the files to a data set."""
