"""Stages: the kinds of stages, one package each; no kind knows another.

`kind` and `productions` hold the protocol of a kind; the modules next to them hold what several
kinds share. A new kind is a package here, plus a method of `Pipeline` if users define it by name;
nothing else in the library asks which kinds exist.
"""
