"""The kinds of sources: rows that users give, and existing tables that someone else writes.

They do not know each other, nor the kinds of stages that are made from others.
"""
