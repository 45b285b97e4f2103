"""Checks that run nothing: of a project, a stage, a machine."""
