"""The report of a run: JSON with every figure, and Markdown with the table and the plots."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
import psutil

mpl.use("Agg")
from matplotlib import pyplot as plt

MIB = 1 << 20


def machine() -> dict[str, str]:
    """Where the figures are from."""
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
    (out / "results.json").write_text(json.dumps(run, indent=2) + "\n")
    plots = [_plot_fractions(run, out), _plot_sizes(run, out)]
    (out / "RESULTS.md").write_text(_markdown(run, [name for name in plots if name]))


def _markdown(run: Mapping[str, Any], plots: Sequence[str]) -> str:
    machine_text = ", ".join(f"{name} {value}" for name, value in run["machine"].items())
    lines = [
        "# Results",
        "",
        f"`{run['command']}` on {run['date']}; {machine_text}.",
        "",
        "Medians of the measured steps, after steps that warm the session up. *Ratio* is the",
        "competitor's time over ours in the same run. Every competitor's tables were compared with",
        "the right answer after its last step; one that was wrong says so and has no figures.",
        "",
    ]
    for size in run["sizes"]:
        for case in size["cases"]:
            lines += [f"## {size['rows']:,} orders, {case['changed']:,} changed", ""]
            lines += _table(case["competitors"], case["changed"])
    lines += [line for name in plots for line in (f"![{name}]({name})", "")]
    return "\n".join(lines)


def _table(competitors: Mapping[str, Any], changed: int) -> list[str]:
    ours = competitors.get("ours", {}).get("median", {}).get("seconds")
    rows = [
        "| | seconds | ratio | jobs | commits | files | MiB written | bytes a change "
        "| MiB read | peak MiB | first load s |",
        "| --- |" + " ---: |" * 10,
    ]
    for found in competitors.values():
        if "median" not in found:
            rows.append(f"| {found['name']} | {found['failure']} |" + " |" * 9)
            continue
        m = found["median"]
        ratio = f"{m['seconds'] / ours:.2f}" if ours else ""
        rows.append(
            f"| {found['name']} | {m['seconds']:.2f} | {ratio} | {m['jobs']:.0f} "
            f"| {m['commits']:.0f} | {m['files_written']:.0f} | {m['bytes_written'] / MIB:.2f} "
            f"| {m['bytes_written'] / changed:,.0f} | {m['bytes_read'] / MIB:.1f} "
            f"| {m['peak_memory_bytes'] / MIB:,.0f} | {found['load']['seconds']:.1f} |"
        )
    notes = competitors.get("ours", {}).get("notes")
    if notes:
        said = "; ".join(f"{name}: {text}" for name, text in notes.items())
        rows += ["", f"Ours, last step: {said}."]
    return [*rows, ""]


def median(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: statistics.median(step[name] for step in steps) for name in steps[0]}


def _plot_fractions(run: Mapping[str, Any], out: Path) -> str | None:
    """Ratio to ours over the changed fraction, at the largest size with several."""
    sizes = [size for size in run["sizes"] if len(size["cases"]) > 1]
    if not sizes:
        return None
    size = max(sizes, key=lambda found: found["rows"])
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label in run["names"].items():
        points = [
            (case["changed"] / size["rows"], case["competitors"][name]["median"]["seconds"]
             / case["competitors"]["ours"]["median"]["seconds"])
            for case in size["cases"]
            if "median" in case["competitors"].get(name, {})
            and "median" in case["competitors"].get("ours", {})
        ]  # fmt: skip
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="changed fraction", ylabel="time over ours")
    axes.set_title(f"{size['rows']:,} orders")
    return _saved(figure, axes, out / "fractions.png")


def _plot_sizes(run: Mapping[str, Any], out: Path) -> str | None:
    """Seconds of a step over the table's size, for a number of changed keys that all sizes have."""
    if len(run["sizes"]) < 2:
        return None
    common = set.intersection(*({c["changed"] for c in size["cases"]} for size in run["sizes"]))
    if not common:
        return None
    changed = max(common)
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label in run["names"].items():
        points = [
            (size["rows"], case["competitors"][name]["median"]["seconds"])
            for size in run["sizes"]
            for case in size["cases"]
            if case["changed"] == changed and "median" in case["competitors"].get(name, {})
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="orders", ylabel="seconds a step")
    axes.set_title(f"{changed:,} changed orders")
    return _saved(figure, axes, out / "sizes.png")


def _saved(figure: Any, axes: Any, file: Path) -> str:  # noqa: ANN401 matplotlib's own types
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return file.name
