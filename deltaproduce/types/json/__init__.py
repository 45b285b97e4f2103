"""JSON: of values that are read back, of known fields, and for other programs."""
