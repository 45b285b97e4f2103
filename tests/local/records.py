"""Someone else's table with a record index, next to a dict of its expected rows."""

import random
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import deltaproduce as dp

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("part", pa.string()),
        ("at", pa.int32()),
        ("v", pa.string()),
    ]
)
KEY = ("a", "b")
KEYS = pa.schema([SCHEMA.field(name) for name in KEY])
PARTS = ("x", "y z", None)


class Records:
    """The index, the table as others write it, and the oracle: rows by key."""

    def __init__(self, place: Path, *, seed=0, ordering=None, buckets=3, rows=60, hash="xxhash64"):
        self.random = random.Random(seed)
        self.table, self.location = str(place / "table"), str(place / "index")
        self.ordering, self.rows = ordering, {}
        self.key_range = 40
        for first in range(0, rows, 20):
            self.foreign_append([self.fresh_key() for _ in range(min(20, rows - first))])
        self.arguments = {"buckets": buckets, "hash": hash, "ordering": ordering}
        self.index = self.opened()
        self.index.build()

    def opened(self, **arguments):
        return dp.RecordIndex(
            None, self.table, "a, b", self.location, **{**self.arguments, **arguments}
        )

    def key(self):
        a = self.random.choice([None, *range(self.key_range)])
        return a, self.random.choice([None, "", "é", "b" * 40])

    def fresh_key(self):
        while True:
            key = self.key()
            if key not in self.rows:
                self.rows[key] = self.row(key)
                return key

    def row(self, key):
        return {
            **dict(zip(KEY, key, strict=True)),
            "part": self.random.choice(PARTS),
            "at": self.random.choice([None, 1, 2, 3]),
            "v": self.random.choice(["u", "v", "w"]),
        }

    # What others do.

    def foreign_append(self, keys):
        rows = pa.Table.from_pylist([self.rows[key] for key in keys], SCHEMA)
        write_deltalake(self.table, rows, mode="append", partition_by=["part"])

    def foreign_delete(self, a):
        DeltaTable(self.table).delete("a is null" if a is None else f"a = {a}")
        self.rows = {key: row for key, row in self.rows.items() if key[0] != a}

    def foreign_optimize(self):
        DeltaTable(self.table).optimize.compact()

    def foreign_overwrite(self):
        rows = pa.Table.from_pylist([*self.rows.values()], SCHEMA)
        write_deltalake(self.table, rows, mode="overwrite", partition_by=["part"])

    def foreign_restore(self, version):
        DeltaTable(self.table).restore(version)
        self.rows = self.stored()

    # What the index does, and what is to come of it.

    def upsert(self, rows):
        batch, lost = {}, 0
        for row in rows:
            key = tuple(row[name] for name in KEY)
            if key in batch:
                lost += 1
                if self.ordering and before(row, batch[key]):
                    continue
            batch[key] = row
        inserted = [key for key in batch if key not in self.rows]
        updated = [
            key
            for key, row in batch.items()
            if key in self.rows
            and row != self.rows[key]
            and not (self.ordering and before(row, self.rows[key]))
        ]
        found = self.index.upsert(rows)
        self.rows |= {key: batch[key] for key in (*inserted, *updated)}
        counts = (len(inserted), len(updated), 0, lost + len(batch) - len(inserted) - len(updated))
        assert (found.inserted, found.updated, found.deleted, found.ignored) == counts
        assert found.strategy == "files"
        assert found.delta_version == DeltaTable(self.table).version()

    def delete(self, keys):
        there = {key for key in keys if key in self.rows}
        found = self.index.delete([dict(zip(KEY, key, strict=True)) for key in keys])
        self.rows = {key: row for key, row in self.rows.items() if key not in there}
        assert (found.inserted, found.updated, found.deleted) == (0, 0, len(there))
        assert found.ignored == len(set(keys)) - len(there)

    # What there is.

    def stored(self):
        rows = DeltaTable(self.table).to_pyarrow_table().select(SCHEMA.names).to_pylist()
        found = {tuple(row[name] for name in KEY): row for row in rows}
        assert len(found) == len(rows)
        return found

    def check(self, keys=()):
        """Table and oracle are the same, and the index says of each key where it is."""
        assert self.stored() == self.rows
        assert self.index.verify() == ()
        stats = self.index.stats()
        assert stats.records == len(self.rows)
        assert stats.delta_version == DeltaTable(self.table).version()
        wanted = [*self.rows, *keys]
        if not wanted:
            return
        given = [dict(zip(KEY, key, strict=True)) for key in wanted]
        found = self.index.lookup(pa.Table.from_pylist(given, KEYS))
        places = {tuple(row[name] for name in KEY): row for row in found.to_pylist()}
        assert places.keys() == self.rows.keys()
        for key, row in places.items():
            assert row["part"] == self.rows[key]["part"]


def before(row, other):
    """Whether a row loses by the ordering: null is the smallest."""
    return (row["at"] or 0) < (other["at"] or 0)
