"""Copies of a store in other databases: the changes that they lack, and their positions.

To keep a copy, store its `Position` in the same transaction as the rows, and pass it to
`changes_since` the next time. `deltaproduce.postgres` does this for PostgreSQL. The invariant:
nothing here depends on the database, and nothing writes to one.
"""

from deltaproduce.sync.changes import Changes, OnBreak, StageChanges, changes_since
from deltaproduce.sync.positions import Position

__all__ = ["Changes", "OnBreak", "Position", "StageChanges", "changes_since"]
