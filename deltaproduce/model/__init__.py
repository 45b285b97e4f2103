"""Model: what a user defines, as plain values: the graph of stages, their layouts and fingerprints.

Pure: no session, no I/O, nothing of how a stage is computed or stored. Only `memory` asks the
machine how much it has.
"""
