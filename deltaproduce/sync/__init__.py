"""Copies of a store in other databases: what they lack, and the position that they have.

To keep a copy, store its `Position` in the same transaction as the rows, and pass it to
`changes_since` the next time. `deltaproduce.postgres` does this for PostgreSQL. The invariant:
nothing here knows the database, and nothing writes to one.
"""

from deltaproduce.sync.changes import Changes, OnBreak, StageChanges, changes_since
from deltaproduce.sync.positions import Position

__all__ = ["Changes", "OnBreak", "Position", "StageChanges", "changes_since"]
