"""Verbs as typer calls them: common options, shell completion, exit codes."""
