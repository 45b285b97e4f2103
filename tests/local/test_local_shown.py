"""The display of a store without a session, and of its answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from local_stores import shop

import deltaproduce as dp


def order(number: int, customer: str, amount: int) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount}


def test_a_store_is_shown_as_of_its_newest_version(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        assert repr(store).startswith("Store(")
        assert len(repr(store)) < 120
        assert "version 0: empty" in str(store)
        store.update({"orders": [order(1, "ann", 5), order(2, "<b>", 7)]})
        (table,) = dp.Store(None, location, shop()).as_tables()  # opened anew, and not read yet
        assert table.title.endswith("pipeline shop, " + store.head.headline)
        assert [row[0] for row in table.rows] == ["orders", "by_customer", "totals"]
        assert [row[3:] for row in table.rows] == [(2, 2)] * 3
        assert "<table>" in store._repr_html_()


def test_a_lineage_shows_its_first_keys(location: str) -> None:
    with dp.Store(None, location, shop()) as store:
        store.update({"orders": [order(i, "ann", i) for i in range(7)] + [order(9, "<b>", 1)]})
        lineage = store.lineage("totals", "ann")
        assert isinstance(lineage.upstream["orders"], pa.Table)
        (table,) = lineage.as_tables()
        shown = {(row[0], row[1]): row[2:] for row in table.rows}
        assert shown["made from", "orders"] == (7, "0, 1, 2, 3, 4, …")
        assert shown["made from", "by_customer"] == (1, "'ann'")
        assert "<b>" not in store.lineage("orders", 9)._repr_html_().replace("<b>lineage", "")
