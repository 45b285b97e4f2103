"""Model: a user's definitions as plain values: the graph of stages, their layouts and fingerprints.

Pure: no session, no I/O, no knowledge of how a stage is computed or stored. Only `memory` asks the
machine for its memory size.
"""
