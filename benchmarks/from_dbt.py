"""``python -m benchmarks.from_dbt``: a dbt project, and the project of ours that it becomes.

A shop in the shape of dbt's jaffle shop: customers, orders and payments in Parquet files; three
views and two tables over them. Each step changes ten orders: the status of seven, payments of two,
and one is deleted. Then ``dbt run`` makes its tables again in DuckDB, and ``deltaproduce run``
brings those of two projects up to date: one gets all rows again, as dbt does, and finds what
differs; the other gets files of changes. Both are commands with a process of their own, as a
scheduler calls them. After each step ``deltaproduce compare`` compares all tables with dbt's. The
output is a Markdown table.

dbt is found on PATH or named with ``--dbt``. Otherwise dbt-duckdb is installed in an environment of
its own, with the DuckDB that is here: an older one could not read the file of a newer one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.runs import say
from benchmarks.tables import table

_METHODS: Final = ("bank_transfer", "coupon", "credit_card", "gift_card")
_STATUSES: Final = ("placed", "shipped", "completed", "return_pending", "returned")
_ORDERS_A_CUSTOMER: Final = 10
_CHANGED: Final = 10
_HEADER: Final = ("", "first run s", "run s, median", "slowest s", "processor s, median", "right")
_PROJECT: Final = """\
name: shop
version: "1.0"
config-version: 2
profile: shop
models:
  shop:
    +materialized: table
    staging:
      +materialized: view
"""
_PROFILES: Final = """\
shop:
  target: dev
  outputs:
    dev: {type: duckdb, path: shop.duckdb, threads: 2}
"""
_SOURCES: Final = """\
sources:
  - name: raw
    meta: {{external_location: "{folder}/{{name}}.parquet"}}
    tables:
      - name: customers
        columns:
          - {{name: id, data_type: bigint, data_tests: [unique]}}
          - {{name: first_name, data_type: varchar}}
          - {{name: last_name, data_type: varchar}}
      - name: orders
        columns:
          - {{name: id, data_type: bigint, data_tests: [unique]}}
          - {{name: user_id, data_type: bigint}}
          - {{name: order_date, data_type: date}}
          - {{name: status, data_type: varchar}}
      - name: payments
        columns:
          - {{name: id, data_type: bigint, data_tests: [unique]}}
          - {{name: order_id, data_type: bigint}}
          - {{name: payment_method, data_type: varchar}}
          - {{name: amount, data_type: bigint}}
models:
  - name: stg_customers
    columns: [{{name: customer_id, data_tests: [unique]}}]
  - name: stg_orders
    columns: [{{name: order_id, data_tests: [unique]}}]
  - name: stg_payments
    columns: [{{name: payment_id, data_tests: [unique]}}]
  - name: shop_orders
    columns: [{{name: order_id, data_tests: [unique]}}]
  - name: shop_customers
    columns: [{{name: customer_id, data_tests: [unique]}}]
"""
_MODELS: Final[Mapping[str, str]] = {
    "staging/stg_customers": """\
SELECT id AS customer_id, first_name, last_name FROM {{ source('raw', 'customers') }}
""",
    "staging/stg_orders": """\
SELECT id AS order_id, user_id AS customer_id, order_date, status
FROM {{ source('raw', 'orders') }}
""",
    "staging/stg_payments": """\
SELECT id AS payment_id, order_id, payment_method, amount / 100 AS amount
FROM {{ source('raw', 'payments') }}
""",
    "shop_orders": """\
{%- set methods = ['bank_transfer', 'coupon', 'credit_card', 'gift_card'] %}
WITH paid AS (
  SELECT order_id,
    {%- for method in methods %}
    sum(CASE WHEN payment_method = '{{ method }}' THEN amount ELSE 0 END) AS {{ method }}_amount,
    {%- endfor %}
    sum(amount) AS amount
  FROM {{ ref('stg_payments') }}
  GROUP BY order_id
)
SELECT o.order_id, o.customer_id, o.order_date, o.status,
  {%- for method in methods %}
  p.{{ method }}_amount,
  {%- endfor %}
  p.amount
FROM {{ ref('stg_orders') }} AS o
LEFT JOIN paid AS p ON o.order_id = p.order_id
""",
    "shop_customers": """\
WITH ordered AS (
  SELECT customer_id, min(order_date) AS first_order, max(order_date) AS most_recent_order,
    count(order_id) AS number_of_orders
  FROM {{ ref('stg_orders') }}
  GROUP BY customer_id
), paid AS (
  SELECT o.customer_id, sum(p.amount) AS total_amount
  FROM {{ ref('stg_payments') }} AS p
  JOIN {{ ref('stg_orders') }} AS o ON p.order_id = o.order_id
  GROUP BY o.customer_id
)
SELECT c.customer_id, c.first_name, c.last_name, ordered.first_order, ordered.most_recent_order,
  ordered.number_of_orders, paid.total_amount AS customer_lifetime_value
FROM {{ ref('stg_customers') }} AS c
LEFT JOIN ordered ON c.customer_id = ordered.customer_id
LEFT JOIN paid ON c.customer_id = paid.customer_id
""",
}


def main(arguments: Sequence[str]) -> int:
    """Run both, change orders, compare; return 1 if a table differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.from_dbt", description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=5, help="of ten changed orders each")
    parser.add_argument("--dbt", help="the path of dbt's command")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as place:
        folder = Path(place)
        return _compared(folder, _dbt(given.dbt, folder), given.orders, given.steps)


@dataclass
class Shop:
    """The rows of the shop.

    Attributes:
        folder: the folder with all rows of each table, in a file each.
        changes: the folder with a folder of changes for each table.
        tables: the rows by table.
    """

    folder: Path
    changes: Path
    tables: dict[str, pa.Table]
    _steps: int = 0

    @staticmethod
    def of(place: Path, orders: int) -> Shop:
        """Return a shop with so many orders, in files."""
        shop = Shop(place / "raw", place / "raw_changes", _rows(orders))
        shop.folder.mkdir()
        for name, rows in shop.tables.items():
            (shop.changes / name).mkdir(parents=True)
            upserts = pa.array(["upsert"] * len(rows))
            shop._write(name, rows.append_column("_change_type", upserts))
        return shop

    def step(self) -> None:
        """Change ten orders, in both folders."""
        self._steps += 1
        orders, payments = self.tables["orders"], self.tables["payments"]
        chance = np.random.default_rng(self._steps)
        ids = orders.column("id").to_numpy()
        chosen = chance.choice(ids, _CHANGED, replace=False)
        new_status, new_amount, deleted = chosen[:7], chosen[7:9], chosen[9:]
        status = pc.if_else(
            pc.is_in(orders.column("id"), pa.array(new_status)),
            _STATUSES[self._steps % len(_STATUSES)] + "!",
            orders.column("status"),
        )
        orders = orders.set_column(3, "status", status)
        is_paid = pc.is_in(payments.column("order_id"), pa.array(new_amount))
        more = pc.add(payments.column("amount"), 100)
        amount = pc.if_else(is_paid, more, payments.column("amount"))
        payments = payments.set_column(3, "amount", amount)
        self._take("orders", orders, "id", [*new_status], [*deleted])
        self._take("payments", payments, "order_id", [*new_amount], [*deleted])

    def _take(
        self, name: str, rows: pa.Table, column: str, changed: list[int], deleted: list[int]
    ) -> None:
        """Store the rows of a table, and its changes by a column."""
        values = rows.column(column)
        is_deleted = pc.is_in(values, pa.array(deleted))
        upserts = rows.filter(pc.is_in(values, pa.array(changed)))
        deletes = rows.filter(is_deleted)
        kinds = ["upsert"] * len(upserts) + ["delete"] * len(deletes)
        changes = pa.concat_tables([upserts, deletes]).append_column(
            "_change_type", pa.array(kinds, pa.string())
        )
        self.tables[name] = rows.filter(pc.invert(is_deleted))
        self._write(name, changes)

    def _write(self, name: str, changes: pa.Table) -> None:
        pq.write_table(self.tables[name], self.folder / f"{name}.parquet")
        if len(changes):
            pq.write_table(changes, self.changes / name / f"{self._steps:04}.parquet")


def _rows(orders: int) -> dict[str, pa.Table]:
    """Return customers, orders and payments: one payment an order, and a second for a fifth."""
    chance = np.random.default_rng(0)
    customers = max(1, orders // _ORDERS_A_CUSTOMER)
    numbers = np.arange(1, customers + 1)
    payments = orders + orders // 5
    names = {kind: pa.array([f"{kind} {n}" for n in range(1000)]) for kind in ("first", "last")}

    def among(texts: Sequence[str] | pa.Array, count: int) -> pa.Array:
        return pa.array(texts).take(pa.array(chance.integers(0, len(texts), count)))

    return {
        "customers": pa.table(
            {
                "id": numbers,
                "first_name": among(names["first"], customers),
                "last_name": among(names["last"], customers),
            }
        ),
        "orders": pa.table(
            {
                "id": np.arange(1, orders + 1),
                "user_id": chance.integers(1, customers + 1, orders),
                "order_date": pa.array(
                    chance.integers(17_500, 20_500, orders).astype(np.int32), pa.date32()
                ),
                "status": among(_STATUSES, orders),
            }
        ),
        "payments": pa.table(
            {
                "id": np.arange(1, payments + 1),
                "order_id": np.arange(payments) % orders + 1,
                "payment_method": among(_METHODS, payments),
                "amount": chance.integers(1, 10_000, payments),
            }
        ),
    }


@dataclass
class Peer:
    """A command that brings tables up to date.

    Attributes:
        arguments: the command.
        folder: where it runs.
        wall: the seconds of each run; the first is the first load.
        processor: the seconds of the processor.
        is_right: whether all tables were as dbt's after each run.
    """

    name: str
    arguments: Sequence[str]
    folder: Path
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    is_right: bool = True

    def run(self) -> None:
        """Run the command, and measure it."""
        before, started = _processor(), time.perf_counter()
        _run(self.arguments, self.folder)
        self.wall.append(time.perf_counter() - started)
        self.processor.append(_processor() - before)

    def line(self) -> tuple[str, ...]:
        """Return its line of the table."""
        first, *steps = self.wall
        return (
            self.name,
            f"{first:.2f}",
            f"{statistics.median(steps):.2f}",
            f"{max(steps):.2f}",
            f"{statistics.median(self.processor[1:]):.2f}",
            "yes" if self.is_right else "NO",
        )


def _compared(place: Path, dbt: str, orders: int, steps: int) -> int:
    shop = Shop.of(place, orders)
    project = _dbt_project(place / "dbt", shop)
    _run([dbt, "compile"], project)
    command = [sys.executable, "-m", "deltaproduce.cli"]
    ours = {"all rows given": "given_rows", "changes given": "given_changes"}
    peers = [Peer("`dbt run`", [dbt, "run"], project)]
    for what, name in ours.items():
        _run([*command, "init", name, "--from-dbt", str(project)], place)
        peers.append(Peer(f"`deltaproduce run`, {what}", [*command, "run"], place / name))
    _give_changes(place / "given_changes", shop)
    models, comparing = list[float](), list[float]()
    for step in range(steps + 1):
        if step:
            shop.step()
        for peer in peers:
            peer.run()
        models.append(_models_seconds(project))
        for peer in peers[1:]:
            started = time.perf_counter()
            peer.is_right &= _is_equal([*command, "compare"], peer.folder)
            comparing.append(time.perf_counter() - started)
    count = sum(map(len, shop.tables.values()))
    say(f"{orders:,} orders, {count:,} rows in all; {_CHANGED} changed orders a step")
    say(f"{_version(dbt)}\n")
    for line in table(_HEADER, [peer.line() for peer in peers]):
        say(line)
    say(
        f"dbt's models take {statistics.median(models[1:]):.2f} s of a run; the rest is its start. "
        f"A comparison of all tables takes {statistics.median(comparing):.2f} s."
    )
    return int(not all(peer.is_right for peer in peers))


def _dbt_project(folder: Path, shop: Shop) -> Path:
    """Write the dbt project, and return its folder."""
    texts = {"dbt_project.yml": _PROJECT, "profiles.yml": _PROFILES}
    texts["models/schema.yml"] = _SOURCES.format(folder=shop.folder)
    texts |= {f"models/{name}.sql": text for name, text in _MODELS.items()}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _give_changes(project: Path, shop: Shop) -> None:
    """Let a project read files of changes instead of all rows."""
    path = project / "deltaproduce.toml"
    text = path.read_text()
    for name in shop.tables:
        text = re.sub(
            rf'path = "[^"]*/{name}.parquet"\nmode = "snapshot"',
            f'path = {json.dumps(str(shop.changes / name))}\nmode = "changes"',
            text,
        )
    if text.count('mode = "changes"') != len(shop.tables):
        raise RuntimeError(f"sources are not as expected: {text}")
    path.write_text(text)


def _dbt(given: str | None, place: Path) -> str:
    """Return the path of dbt's command; install it if there is none."""
    path = given or shutil.which("dbt")
    if path is not None:
        return str(Path(path).absolute())
    say("dbt is not on PATH: dbt-duckdb is installed in an environment of its own")
    environment = place / "dbt_environment"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin/python")
    packages = ["dbt-core<1.12", "dbt-duckdb", f"duckdb=={duckdb.__version__}"]
    _run([python, "-m", "pip", "install", "--quiet", *packages], place)
    return str(environment / "bin/dbt")


def _models_seconds(project: Path) -> float:
    """Return the seconds of dbt's last run without its start."""
    results = json.loads((project / "target/run_results.json").read_text())
    return float(results["elapsed_time"])


def _version(dbt: str) -> str:
    said = subprocess.run([dbt, "--version"], capture_output=True, text=True, check=False).stdout
    versions = re.findall(r"(installed|duckdb): +([0-9.]+)", said)
    return "dbt " + ", duckdb adapter ".join(version for _, version in versions)


def _is_equal(command: Sequence[str], folder: Path) -> bool:
    ran = subprocess.run(command, cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True)
    if ran.returncode:
        say(ran.stdout + ran.stderr)
    return ran.returncode == 0


def _run(command: Sequence[str], folder: Path) -> None:
    """Run a command.

    Raises:
        RuntimeError: it fails.
    """
    ran = subprocess.run(command, cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {ran.stdout}{ran.stderr}")


_ENVIRONMENT: Final = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
