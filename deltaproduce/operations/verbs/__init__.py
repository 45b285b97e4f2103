"""Verbs: what a store is asked to do, a module each: what is refused, and what is carried out.

The invariant: whatever is wrong with a call is said before anything is written.
"""
