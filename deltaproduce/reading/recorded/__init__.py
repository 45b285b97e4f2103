"""Stores as their version logs record them: read without the pipelines that made them."""
