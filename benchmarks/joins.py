"""``python -m benchmarks.joins``: a join of two large feeders, one with small changes.

The join of the shapes, with one order for each customer, so both feeders have about as many rows:
the cost of an update of one key, or of a thousand, against the same tables recomputed and merged by
hand. All tables are checked, and the last output is Markdown, with seconds, files and bytes read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import policy, report, tables
from benchmarks.competitors import COMPETITORS, able
from benchmarks.options import changed_keys
from benchmarks.policy import Effort
from benchmarks.runs import Bench, Size, cases, opened, say
from benchmarks.sessions import Place
from benchmarks.shapes import join


def main(arguments: Sequence[str]) -> int:
    """Load, change and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joins", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of each feeder")
    parser.add_argument("--changed", default="1,1000", help="keys a step, e.g. 1,1000 or 1%%")
    parser.add_argument("--steps", type=int, default=5, help="measured, of each number of keys")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with opened(given.directory, Place(memory=given.memory)) as bench:
        changed = changed_keys(given.changed.split(","), given.rows)
        found = joins(bench, given.rows, changed, Effort(policy.MAIN.warm_up, given.steps))
    say("\n".join(["", *markdown(found)]))
    return int(report.failed(found))


def joins(bench: Bench, rows: int, changed: Sequence[int], effort: Effort) -> dict[str, Any]:
    """Return the figures of a join of this many rows with as many, as for a size of W1."""
    names = policy.shape_peers([], able("join"))
    size = Size.of(bench, join(1), rows, {name: COMPETITORS[name] for name in names})
    result: dict[str, Any] = {}
    for _ in cases(size, {keys: dict.fromkeys(names, effort) for keys in changed}, result):
        pass
    return result


def markdown(found: dict[str, Any]) -> list[str]:
    """Return the tables, by the number of changed keys."""
    lines = [
        f"## A join of {found['rows']:,} rows with about as many, by key",
        "",
        *tables.overview(found),
    ]
    for case in found["cases"]:
        lines += [f"### {case['changed']:,} of {found['rows']:,} keys changed", ""]
        lines += tables.steps(case["competitors"], case["changed"])
        lines += tables.settled(case["competitors"])
        lines += tables.by_stage(case["competitors"])
    wrong = report.failed(found)
    return [*lines, f"The tables were checked: {'see what failed' if wrong else 'all are right'}."]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
