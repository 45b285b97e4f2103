"""The law of a record index, on random series: for every key it agrees with the table."""

import pytest
from records import KEY, Records

from deltaproduce.record_index import parting, view

RUN_BYTES = (1, 2_000, 1 << 30)
"""A step that catches up reads so many bytes of new files, and stores their keys, at a time."""


def one_step(records):
    """A random change, by the index or by others."""
    draw = records.random
    batch = [records.row(records.key()) for _ in range(draw.randint(1, 8))]
    if not records.ordering:
        batch = [*{tuple(row[name] for name in KEY): row for row in batch}.values()]
    now = records.index.stats().delta_version
    steps = [
        *[lambda: records.upsert(batch)] * 6,
        *[lambda: records.delete([records.key() for _ in range(4)])] * 2,
        lambda: records.foreign_append([records.fresh_key() for _ in range(3)]),
        lambda: records.foreign_delete(records.key()[0]),
        records.foreign_optimize,
        records.foreign_overwrite,
        lambda: records.foreign_restore(draw.randint(max(0, now - 3), now - 1)),
        records.index.compact,
        lambda: records.index.rebuild(draw.randint(1, 5)),
        records.index.build,
    ]
    draw.choice(steps)()


@pytest.mark.parametrize("ordering", [None, "at"])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))]
)
def test_an_index_says_what_a_dict_says(tmp_path, monkeypatch, seed, ordering, long_run):
    """Half of them in parts of some entries, which are kept in a file."""
    if seed % 2 == (ordering is None):
        monkeypatch.setattr(parting, "ENTRIES_A_BUCKET", 5)
        monkeypatch.setattr(parting, "_MOST_BYTES", 0)
    records = Records(tmp_path, seed=seed, ordering=ordering)
    monkeypatch.setattr(view, "_RUN_SHARE", 0)
    for _ in range(25 if long_run else 10):
        monkeypatch.setattr(view, "_RUN_BYTES", records.random.choice(RUN_BYTES))
        one_step(records)
        if records.random.random() < 0.3:
            records.index = records.opened(buckets=None)
        records.check([records.key() for _ in range(5)])
