"""Stages: the kinds that there are, a package each, which do not know each other.

What is asked of a kind is in `kind` and `productions`; what more than one needs is beside them. A
new kind is a package here, and a method of `Pipeline` if it is to have a name there; nothing else
in the library asks which kinds there are.
"""
