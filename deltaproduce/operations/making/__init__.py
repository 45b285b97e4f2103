"""Work: what one version is made from, a value for each way to make one.

Nothing here writes; the executor carries it out.
"""
