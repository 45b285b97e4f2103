"""Answers of verbs: as values, as summaries of the library's values, and in print."""
