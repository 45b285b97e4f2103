"""Verbs: the operations that a store offers, one module each: argument checks, and the call.

The invariant: a wrong call is refused before anything is written.
"""
