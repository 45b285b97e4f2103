"""PostgreSQL: keeps the tables of a store in a database, all at one version in one transaction.

The invariant: readers of the database see all tables at one version, which the table of positions
names, whatever fails and when.

It needs psycopg (``pip install 'deltaproduce[postgres]'``), and imports it when you call
`Sync.run`.
"""

from deltaproduce.postgres.sync import Sync, Synced, SyncedTable

__all__ = ["Sync", "Synced", "SyncedTable"]
