"""Verbs as typer calls them: the options that several have, what a shell completes, exit codes."""
