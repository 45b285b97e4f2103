"""Rejected rows: the stage with the rows of a source that are set aside, as they break a rule.

`kind` is its kind; `dividing` divides a batch of the source into rows that it takes, and others.
"""
