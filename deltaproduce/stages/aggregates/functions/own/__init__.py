"""Aggregate functions of users' own: what is kept of a group, and what its value is.

What is here runs in worker processes. What may not be here: anything that checks or describes what
a user has defined, which is `model.own_aggregates`, or that says where it runs.
"""
