"""``python -m benchmarks.aggregates``: aggregates of one group of all rows, and of many small ones.

Measures a step that changes one row of a group of ten million, and a step that changes a thousand
rows in as many groups, against the same tables recomputed and merged by hand; and a first load
against a `GROUP BY` of the same functions, written to Delta. Spark's peers take a minute a step, so
they take fewer. All tables are checked. The figures of each case follow it as Markdown, so an
interrupted run leaves those before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import deltaproduce as dp
from benchmarks import policy, report, tables
from benchmarks.competitors import COMPETITORS
from benchmarks.first_load import FirstLoad, first_load
from benchmarks.grouped import READINGS_VALUE, STAGES, grouped
from benchmarks.ours import Ours
from benchmarks.policy import Effort
from benchmarks.runs import Bench, Size, cases, opened, say
from benchmarks.sessions import Place
from benchmarks.workload import Workload

GROUPS: Final = {"one": False, "many": True}
PEERS: Final = ("ours", "ours-arrow", "recompute", "merge", "duckdb")


def main(arguments: Sequence[str]) -> int:
    """Load, change and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aggregates", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="in all groups together")
    parser.add_argument("--changed", type=int, default=1_000, help="rows a step, of many groups")
    parser.add_argument("--steps", type=int, default=5, help="measured, after those that warm up")
    parser.add_argument("--stages", default=",".join(STAGES), help="which functions")
    parser.add_argument("--groups", default=",".join(GROUPS), help="one of all rows, many small")
    parser.add_argument("--peers", default=",".join(PEERS), help="who takes part")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    peers = given.peers.split(",")
    efforts = policy.of_aggregates(peers, given.rows, given.steps)
    wrong = False
    with opened(given.directory, Place(memory=given.memory)) as bench:
        for stage in given.stages.split(","):
            for groups in given.groups.split(","):
                workload = grouped(stage, many=GROUPS[groups])
                changed = given.changed if GROUPS[groups] else 1
                found = steps(bench, workload, given.rows, changed, efforts)
                say("\n".join(["", *markdown(workload, found)]))
                loads = first_load(bench, given.rows, beside_group_by(workload))
                say("\n".join(["", *tables.first_load(loads)]))
                wrong |= report.failed(found) or report.failed(loads)
    return int(wrong)


def steps(
    bench: Bench,
    workload: Workload,
    rows: int,
    changed: int,
    efforts: Mapping[str, Effort],
) -> dict[str, Any]:
    """Return the figures of a workload with this many rows, with some changes in each step."""
    size = Size.of(bench, workload, rows, {name: COMPETITORS[name] for name in efforts})
    result: dict[str, Any] = {}
    for _ in cases(size, {changed: efforts}, result):
        pass
    return result


def beside_group_by(workload: Workload) -> FirstLoad:
    """Return a first load of a workload's aggregate, against the query of the same functions."""
    stage, table = workload.stages[0], workload.tables[workload.stages[0]]

    def source_alone() -> dp.Pipeline:
        pipeline = dp.Pipeline("grouped")
        pipeline.source(workload.source, key="n bigint", value=READINGS_VALUE)
        return pipeline

    def group_by(spark: SparkSession, target: Path) -> DataFrame:
        delta = spark.read.format("delta")
        readings = delta.load(str(target / workload.source / "content"))
        made = workload.derived(stage, readings)
        in_order = made.repartitionByRange(*table.row).sortWithinPartitions(*table.row)
        in_order.write.format("delta").save(str(target / "plain"))
        return delta.load(str(target / "plain"))

    return FirstLoad(workload, source_alone, {"ours": Ours}, "GROUP BY, written to Delta", group_by)


def markdown(workload: Workload, found: dict[str, Any]) -> list[str]:
    """Return the tables of one workload."""
    lines = [f"## {found['rows']:,} rows: {workload.what}", ""]
    for case in found["cases"]:
        lines += [f"{case['changed']:,} changed a step.", ""]
        lines += tables.steps(case["competitors"], case["changed"])
        lines += tables.by_stage(case["competitors"])
    return [*lines, "All tables are right." if not report.failed(found) else "See what failed.", ""]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
