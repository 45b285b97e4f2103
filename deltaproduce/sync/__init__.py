"""Copies of a store in other databases: what they lack, and the position that says so.

Who keeps a copy stores its `Position` in the same transaction as the rows, and gives it to
`changes_since` the next time. `deltaproduce.postgres` does so for PostgreSQL. The invariant:
nothing here knows which database it is, and none is written to.
"""

from deltaproduce.sync.changes import Changes, OnBreak, StageChanges, changes_since
from deltaproduce.sync.positions import Position

__all__ = ["Changes", "OnBreak", "Position", "StageChanges", "changes_since"]
