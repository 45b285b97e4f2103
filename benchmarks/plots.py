"""Plots of a run: ratio over changed fraction, time over size, time over the number of versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

Line = tuple[str, Sequence[tuple[float, float]]]


def draw(run: Mapping[str, Any], out: Path) -> list[str]:
    """Draw the run's figures; return the names of the files."""
    files = []
    for size in run["sizes"]:
        lines = over_fractions(size, run["names"])
        if lines:
            file = out / f"fractions-{size['rows']}.png"
            labels = ("changed fraction", "time over ours", f"{size['rows']:,} orders")
            files.append(_drawn(lines, labels, file))
    for changed in sorted({case["changed"] for size in run["sizes"] for case in size["cases"]}):
        lines = over_sizes(run["sizes"], changed, run["names"])
        if lines:
            labels = ("orders", "seconds a step", f"{changed:,} changed orders")
            files.append(_drawn(lines, labels, out / f"sizes-{changed}.png"))
    lines = over_versions(run.get("versions") or {"competitors": {}})
    if lines:
        labels = ("version", "seconds", "small versions in a row")
        files.append(_drawn(lines, labels, out / "versions.png", scale="linear"))
    return files


def over_fractions(size: Mapping[str, Any], names: Mapping[str, str]) -> list[Line]:
    """Return each competitor's time over ours, by changed fraction; none if there is only one."""
    cases = [case for case in size["cases"] if "median" in case["competitors"].get("ours", {})]
    if len(cases) < 2:
        return []
    return _lines(
        (
            label,
            [
                (
                    case["changed"] / size["rows"],
                    case["competitors"][name]["median"]["seconds"]
                    / case["competitors"]["ours"]["median"]["seconds"],
                )
                for case in cases
                if "median" in case["competitors"].get(name, {})
            ],
        )
        for name, label in names.items()
    )


def over_sizes(
    sizes: Sequence[Mapping[str, Any]], changed: int, names: Mapping[str, str]
) -> list[Line]:
    """Return each competitor's time by number of rows, for one number of changed keys."""
    found = _lines(
        (
            label,
            [
                (size["rows"], case["competitors"][name]["median"]["seconds"])
                for size in sizes
                for case in size["cases"]
                if case["changed"] == changed and "median" in case["competitors"].get(name, {})
            ],
        )
        for name, label in names.items()
    )
    return found if any(len(points) > 1 for _, points in found) else []


def over_versions(series: Mapping[str, Any]) -> list[Line]:
    """Return the time of each version."""
    return _lines(
        (found["name"], [(at, seconds) for at, seconds in enumerate(found.get("seconds", ()), 1)])
        for found in series["competitors"].values()
    )


def _lines(lines: Any) -> list[Line]:  # noqa: ANN401 an iterable of lines
    return [(label, sorted(points)) for label, points in lines if points]


def _drawn(
    lines: Sequence[Line], labels: tuple[str, str, str], file: Path, scale: str = "log"
) -> str:
    figure, axes = plt.subplots(figsize=(7, 4))
    for label, points in lines:
        marker = "o" if scale == "log" else ""
        axes.plot(*zip(*points, strict=True), marker=marker, label=label)
    x, y, title = labels
    axes.set(xscale=scale, yscale=scale, xlabel=x, ylabel=y, title=title)
    if scale == "linear":
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return file.name
