"""Storage: the tables of a store, their commits, versions and the version log.

Decisions about them (`recovery`, `resumption`, `retention`) are pure. Nothing here knows how rows
are produced.
"""
