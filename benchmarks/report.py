"""The report of a run: JSON with every figure, and Markdown with the tables and the plots."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import tables
from benchmarks.plots import draw

_HOW_TO_READ: Final = """\
Medians of *n* measured steps, after steps that warm the session up; [README.md](README.md) says how
it is measured. *Ratio* is the time over ours in the same run: above 1, ours is faster. *Bytes a
change* are the bytes written over the changed source keys. *Feed keys* and *feed rows* are what
the last step's feed of the last table lists / what truly changed in it. Rows that changed are those
gone and those new; a feed that lists an update as its new row alone has fewer. Competitors that
took fewer steps, and so have other rows, show no feed.
"""


def empty(arguments: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a run that has measured nothing yet.

    Args:
        arguments: the command line's arguments.
        names: the peers' names there and in the report.
    """
    return {
        "command": shlex.join(["python", "-m", "benchmarks", *arguments]),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "names": dict(names),
        "complete": False,
        "sizes": [],
        "shapes": [],
        "versions": None,
        "first loads": [],
    }


def failed(found: Any) -> bool:  # noqa: ANN401 any part of a run
    """Return whether a part of a run is, or contains, a failure."""
    if isinstance(found, Mapping):
        return "failure" in found or any(failed(part) for part in found.values())
    return isinstance(found, list) and any(failed(part) for part in found)


def machine() -> dict[str, str]:
    """Describe the machine of the figures."""
    packages = ("pyspark", "delta-spark", "pyarrow", "deltalake", "duckdb")
    return {
        "cores": str(psutil.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / (1 << 30):.0f} GiB",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def write(run: Mapping[str, Any], out: Path) -> None:
    """Write ``results.json``, ``RESULTS.md`` and the plots into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(run, indent=1) + "\n")
    (out / "RESULTS.md").write_text(markdown(run, draw(run, out)))


def markdown(run: Mapping[str, Any], plots: Sequence[str]) -> str:
    """Return the whole text."""
    machine_text = ", ".join(f"{name} {value}" for name, value in run["machine"].items())
    command = f"`{run['command']}` on {run['date']}; {machine_text}."
    lines = ["# Results", "", command, *_state(run), "", _HOW_TO_READ]
    for size in run["sizes"]:
        lines += _size(size)
    if run["shapes"]:
        lines += ["## Shapes", ""]
        lines += [f"- *{shape['name']}*: {shape['what']}{_unchecked(shape)}."
                  for shape in run["shapes"]]  # fmt: skip
        lines += ["", *_rows_of(run["shapes"]), *tables.shapes(run["shapes"])]
    if run["versions"]:
        lines += ["## Many small versions in a row", "", *_series(run["versions"])]
    if run["first loads"]:
        lines += ["## First load of a stage", ""]
        lines += [line for found in run["first loads"] for line in _first_load(found)]
    judged = tables.planner(run["sizes"])
    if judged:
        text = "A choice is a hit if its stage took at most 1.1 times what it takes in full."
        lines += ["## The planner's choices", "", text, "", *judged]
    lines += [line for name in plots for line in (f"![{name}]({name})", "")]
    return "\n".join(lines)


def _state(run: Mapping[str, Any]) -> list[str]:
    return [] if run["complete"] else ["", "**The run was not complete when this was written.**"]


def _size(size: Mapping[str, Any]) -> list[str]:
    lines = [f"## W1, {size['rows']:,} orders", ""]
    if not size["checked"]:
        lines += ["**The results of this size have not been checked yet.**", ""]
    if not size["cases"]:
        return lines
    lines += tables.overview(size)
    for case in size["cases"]:
        lines += [f"### {case['changed']:,} of {size['rows']:,} orders changed", ""]
        lines += tables.steps(case["competitors"], case["changed"])
        lines += tables.settled(case["competitors"])
        lines += tables.by_stage(case["competitors"])
    stored = tables.storage(size["storage"])
    return lines + ([f"### Storage, {size['rows']:,} orders", "", *stored] if stored else [])


def _series(found: Mapping[str, Any]) -> list[str]:
    if "failure" in found:
        return [f"It {found['failure']}.", ""]
    text = (
        f"{found['versions']} versions of orders by customer, {found['rows']:,} orders, "
        f"{found['changed']} changed each time. The first and the last are medians of ten."
    )
    return [text, "", *tables.series(found)]


def _first_load(found: Mapping[str, Any]) -> list[str]:
    if "failure" in found:
        return [f"It {found['failure']}.", ""]
    text = (
        f"Orders by customer, {found['rows']:,} orders: the stage's part of ours (content, key "
        "mappings, updates, version) beside a plain job that runs the same function and writes "
        "sorted content alone."
    )
    return [text, "", *tables.first_load(found)]


def _unchecked(shape: Mapping[str, Any]) -> str:
    return "" if shape["checked"] else " (results not checked yet)"


def _rows_of(shapes: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = max(shape["rows"] for shape in shapes)
    changed = sorted({case["changed"] for shape in shapes for case in shape["cases"]})
    return [f"{rows:,} source rows, {', '.join(f'{keys:,}' for keys in changed)} keys changed.", ""]
