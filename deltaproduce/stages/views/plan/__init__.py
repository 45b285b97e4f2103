"""Plans of views: which operators have tables of their own, by what a change would read.

Whether an operator follows changes at all is decided by the same costs of look-ups.
"""
