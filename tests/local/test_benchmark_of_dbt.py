"""The benchmark beside dbt gives both projects the same rows: all of them, or what changed."""

from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.from_dbt import Shop


def test_changes_lead_to_the_rows_that_are_given_in_full(tmp_path: Path) -> None:
    shop = Shop.of(tmp_path, 200)
    tables = ("customers", "orders", "payments")
    before = {name: pq.read_table(shop.folder / f"{name}.parquet") for name in tables}
    for _ in range(3):
        shop.step()
    for name in tables:
        kept = dict[int, dict]()
        for path in sorted((shop.changes / name).iterdir()):
            for row in pq.read_table(path).to_pylist():
                if row.pop("_change_type") == "delete":
                    del kept[row["id"]]
                else:
                    kept[row["id"]] = row
        rows = pq.read_table(shop.folder / f"{name}.parquet")
        assert sorted(kept.values(), key=lambda row: row["id"]) == rows.to_pylist()
        assert (rows == before[name]) is (name == "customers")
    changed = pq.read_table(shop.changes / "orders/0001.parquet")
    assert changed.column("_change_type").to_pylist() == ["upsert"] * 7 + ["delete"]
