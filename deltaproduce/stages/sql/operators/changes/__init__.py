"""Changes of relations: signed rows, the keys that they touch, and rules that operators share.

The invariant: no expression is computed for a row that exists neither before nor after.
"""
