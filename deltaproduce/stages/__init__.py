"""Stages: the kinds that there are, a package each, which do not know each other."""
