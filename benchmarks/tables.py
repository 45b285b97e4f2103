"""Tables: the figures of a run as Markdown. Pure: from plain values to lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks.planner import Choice, against_refresh, choices, crossing
from benchmarks.storage import content_alone

MIB: Final = 1 << 20
NO_FIGURE: Final = "-"

Found = Mapping[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> list[str]:
    """Return a Markdown table whose first columns are text, and numbers after them."""
    rules = ["---"] * texts + ["---:"] * (len(header) - texts)
    lines = [header, rules, *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def overview(size: Found) -> list[str]:
    """Return seconds a step: a row for each competitor, a column for each number of keys."""
    names = {n: c["name"] for case in size["cases"] for n, c in case["competitors"].items()}
    header = [
        "seconds a step, by changed orders",
        "first load",
        *(f"{case['changed']:,}" for case in size["cases"]),
    ]
    rows = []
    for name, label in names.items():
        load = size["loads"].get(name)
        found = [case["competitors"].get(name, {}) for case in size["cases"]]
        first = f"{load['seconds']:.1f}" if load else NO_FIGURE
        rows.append([label, first, *(_seconds(competitor) for competitor in found)])
    return table(header, rows)


def steps(competitors: Mapping[str, Found], changed: int) -> list[str]:
    """Return a step's figures: a row for each competitor."""
    ours = competitors.get("ours", {}).get("median")
    header = ["a step", "n", *_STEP, "feed keys", "feed rows"]
    return table(header, [_step_row(found, changed, ours) for found in competitors.values()])


def shapes(found: Sequence[Found]) -> list[str]:
    """Return a step's figures for each shape: a row for each shape and competitor."""
    header = ["shape", "by", "n", *_STEP, "first load s", "feed keys", "feed rows"]
    rows = []
    for shape in found:
        for case in shape["cases"]:
            ours = case["competitors"].get("ours", {}).get("median")
            for name, competitor in case["competitors"].items():
                who, *cells = _step_row(competitor, case["changed"], ours)
                load = shape["loads"].get(name)
                seconds = f"{load['seconds']:.1f}" if load else NO_FIGURE
                rows.append([shape["name"], who, *cells[:-2], seconds, *cells[-2:]])
    return table(header, rows, texts=2)


_SETTLED_SECONDS: Final = 0.1


def by_stage(competitors: Mapping[str, Found]) -> list[str]:
    """Return what ours did to each stage in its last step."""
    rows = []
    for name, found in competitors.items():
        if name.startswith("ours") and found.get("figures"):
            for stage, did in found["figures"][-1].items():
                numbers = [did[of] for of in ("affected_keys", "changed_keys", "rows")]
                texts = [found["name"], stage, did["mode"], did["reason"]]
                cells = [*(f"{number:,}" for number in numbers), f"{did['seconds']:.2f}"]
                rows.append([*texts, *cells])
    header = ["last step of", "stage", "mode", "reason", "affected keys", "changed keys", "rows",
              "seconds"]  # fmt: skip
    return table(header, rows, texts=4) if rows else []


def settled(competitors: Mapping[str, Found]) -> list[str]:
    """Return the work after the steps, which runs concurrently with what comes next."""
    lines = [
        f"{found['name']} went on compacting for {found['settling']:.1f} s after all steps of this "
        "case together, those that warm up too; that is not in the seconds above."
        for found in competitors.values()
        if found.get("settling", 0) >= _SETTLED_SECONDS
    ]
    return [*lines, ""] if lines else []


def storage(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the bytes of all tables of a stage over the bytes of its content alone."""
    after_load = found.get("after load", {})
    rows = []
    for when, competitors in found.items():
        for name, stages in competitors.items():
            for stage, stored in stages.items():
                alone = content_alone(after_load[name][stage], stored["rows"])
                kinds = stored["tables"].values()
                live, disk = (sum(kind[what] for kind in kinds) for what in ("live", "disk"))
                parts = ", ".join(
                    f"{kind} {figures['live'] / MIB:.2f}"
                    for kind, figures in stored["tables"].items()
                )
                numbers = [f"{sum(kind['files'] for kind in kinds):,}"]
                numbers += [f"{number / MIB:.2f}" for number in (alone, live, disk)]
                numbers += [_ratio(live, alone), _ratio(disk, alone)]
                rows.append([name, stage, when, parts, *numbers])
    header = ["", "stage", "when", "live MiB, a table", "live files", "content alone MiB",
              "live MiB", "on disk MiB", "live ratio", "disk ratio"]  # fmt: skip
    return table(header, rows, texts=4) if rows else []


def series(found: Found) -> list[str]:
    """Return many versions in a row: the first ten against the last ten."""
    rows = []
    for competitor in found["competitors"].values():
        if "failure" in competitor:
            rows.append([competitor["name"], competitor["failure"], *[NO_FIGURE] * 7])
            continue
        first, last, files = competitor["first"], competitor["last"], competitor["files"]
        numbers = [f"{first:.2f}", f"{last:.2f}", _ratio(last, first)]
        numbers += [f"{competitor['slowest']:.2f}", f"{competitor['commits']:,}"]
        numbers += [f"{files[when]:,}" for when in ("after load", "at the end")]
        rows.append([competitor["name"], *numbers, f"{competitor['bytes_written'] / MIB:.1f}"])
    header = ["", "first ten s", "last ten s", "ratio", "slowest s", "commits",
              "live files after load", "live files at the end", "MiB written"]  # fmt: skip
    return table(header, rows)


def first_load(found: Found) -> list[str]:
    """Return one stage's first load, ours over the plain job's."""
    plain = found["competitors"]["plain"].get("median")
    rows = []
    for competitor in found["competitors"].values():
        m = competitor.get("median")
        if m is None:
            rows.append([competitor["name"], competitor["failure"], *[NO_FIGURE] * 5])
            continue
        over = _ratio(m["seconds"], plain["seconds"]) if plain else NO_FIGURE
        numbers = [f"{m['seconds']:.2f}", over, f"{m['jobs']:.0f}", f"{m['commits']:.0f}"]
        numbers += [f"{m[of] / MIB:,.1f}" for of in ("bytes_written", "peak_memory_bytes")]
        rows.append([competitor["name"], *numbers])
    header = ["", "seconds", "over plain", "jobs", "commits", "MiB written", "peak MiB"]
    return table(header, rows)


def planner(sizes: Sequence[Found]) -> list[str]:
    """Return the planner's choices and the number of hits; ours over a refresh; the crossings."""
    made = choices(sizes)
    known = [choice for choice in made if choice.hit is not None]
    lines = []
    if known:
        hits = sum(bool(choice.hit) for choice in known)
        lines += [f"Hit rate: {hits} of {len(known)} choices.", ""]
    if made:
        header = ["stage", "mode", "rows", "changed", "affected keys", "seconds", "in full", "hit"]
        lines += table(header, [_choice_row(choice) for choice in made], texts=2)
    over = [[f"{rows:,}", f"{changed:,}", f"{ratio:.2f}"]
            for rows, changed, ratio in against_refresh(sizes)]  # fmt: skip
    if over:
        lines += table(["rows", "changed", "ours over refresh"], over, texts=0)
    for size in sizes:
        crossed = crossing(size, "recompute")
        if crossed is not None:
            lines += [f"- {size['rows']:,} rows: {_crossed(*crossed)}."]
    return [*lines, ""] if lines else []


_STEP: Final = ("seconds", "ratio", "jobs", "commits", "files written", "files read", "MiB written",
                "bytes a change", "MiB read", "peak MiB")  # fmt: skip


def _step_row(found: Found, changed: int, ours: Found | None) -> list[str]:
    if "median" not in found:
        return [found["name"], NO_FIGURE, found["failure"], *[NO_FIGURE] * (len(_STEP) + 1)]
    m = found["median"]
    listed = [NO_FIGURE] * 2
    if found.get("feed") and found["feed"]["listed"]:
        feed = found["feed"]
        listed = [f"{feed['listed'][of]:,} / {feed['changed'][of]:,}" for of in ("keys", "rows")]
    return [
        found["name"],
        str(len(found["steps"])),
        f"{m['seconds']:.2f}",
        _ratio(m["seconds"], ours["seconds"]) if ours else NO_FIGURE,
        f"{m['jobs']:.0f}",
        f"{m['commits']:.0f}",
        f"{m['files_written']:.0f}",
        f"{m['files_read']:.0f}",
        f"{m['bytes_written'] / MIB:.2f}",
        f"{m['bytes_written'] / changed:,.0f}",
        f"{m['bytes_read'] / MIB:.1f}",
        f"{m['peak_memory_bytes'] / MIB:,.0f}",
        *listed,
    ]


def _choice_row(choice: Choice) -> list[str]:
    hit = {None: NO_FIGURE, True: "yes", False: "no"}[choice.hit]
    full = NO_FIGURE if choice.in_full is None else f"{choice.in_full:.2f}"
    numbers = [f"{n:,}" for n in (choice.rows, choice.changed, choice.affected_keys)]
    return [choice.stage, choice.mode, *numbers, f"{choice.seconds:.2f}", full, hit]


def _crossed(faster: float, slower: float) -> str:
    if slower == float("inf"):
        return f"faster than the recompute at every fraction measured, up to {faster:.3%}"
    if faster == 0:
        return f"slower than the recompute at every fraction measured, from {slower:.3%} on"
    return f"as fast as the recompute somewhere between {faster:.3%} and {slower:.3%} changed"


def _seconds(found: Found) -> str:
    if "median" in found:
        return f"{found['median']['seconds']:.2f}"
    return found.get("failure", NO_FIGURE)


def _ratio(number: float, base: float) -> str:
    return f"{number / base:.2f}" if base else NO_FIGURE
