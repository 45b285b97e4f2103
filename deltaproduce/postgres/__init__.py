"""PostgreSQL: the tables of a store kept in a database, all of one version in one transaction.

The invariant: whoever reads the database sees all tables as of one version, which the table of
positions names, whatever fails when.

It needs psycopg (``pip install 'deltaproduce[postgres]'``), and imports it when `Sync.run` is
called.
"""

from deltaproduce.postgres.sync import Sync, Synced, SyncedTable

__all__ = ["Sync", "Synced", "SyncedTable"]
