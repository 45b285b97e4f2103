"""The report of a run as Markdown. Pure: from what a run has found to lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from benchmarks.report import machine
from benchmarks.tables import MIB, NO_FIGURE, table
from benchmarks.tpch.first_loads import FirstLoads, Load
from benchmarks.tpch.ours import HIDDEN, SOURCE, VIEW, StepCost
from benchmarks.tpch.results import (
    FIRST_LOAD_RATIO,
    QueryCost,
    Run,
    median,
    of_query,
    shared,
    targets,
    verdict,
)
from benchmarks.tpch.rows import LOAD, STEPS, THREADS

_GENERATOR: Final = "tpchgen-cli"
_HOW_TO_READ: Final = f"""\
One store without a session has TPC-H's 22 queries as views, with the values that the specification
validates answers with. The rows are those of `tpchgen-cli`. After the first load come, one version
each: 100 new orders with their lines; RF1, 0.1 % more orders with their lines; RF2, which deletes
0.1 % of the orders with their lines; 100 more orders; two steps like RF1 and RF2, but at random
places; 1 % and 10 % of the orders with their lines, with other values. The orders of RF1 and RF2
are adjacent, as those of TPC-H's refresh functions are; those of other steps are at random places
of their table, and none is in two steps. The first step is also the first to look up rows, so it
reads the footers of all files. Queries 2, 11 and 16 read neither orders nor lines.

*Ours* are the seconds of a query's view and of the hidden tables for this view alone. Reading the
batch, sources and commits serve all queries, and count in the sums only. Rows that several views
look up are read once, and count for the first of them. *Read* are rows that were read of stored
tables, without those that the store holds in memory; *read / changed* are these over the rows of
the batch. *Keys* are the keys of the view that changed. *Peak* is the memory of the process that
the system cannot drop.

DuckDB recomputes each query from Parquet to Parquet after each step, with {THREADS} threads. Spark
recomputes each from Delta to Delta, with {THREADS} cores; this does not depend on the step, so it
is measured once, after the last one. Both run a query once to warm up; the second time counts.
Their tables have the batch already, at no cost, while ours takes it in. *Good* is a query or a step
whose refresh takes no longer than recomputing it, in the better of the two and in Spark. The first
load also stores the sources and hidden tables, which the recomputes do not.
"""


def markdown(run: Run) -> str:
    """Return the whole text."""
    known = machine() | {_GENERATOR: version(_GENERATOR)}
    told = ", ".join(f"{name} {value}" for name, value in known.items())
    date = datetime.now(UTC).date().isoformat()
    lines = [f"# TPC-H at scale factor {run.scale:g}", "", f"`{run.command}` on {date}; {told}."]
    if not run.is_complete:
        lines += ["", "**The run was not complete when this was written.**"]
    lines += ["", *_checked(run), "", _HOW_TO_READ]
    if targets(run):
        lines += ["## Targets", "", *_targets(run)]
    if run.steps:
        lines += ["## Sums", "", *_sums(run), *_parts(run.steps)]
        lines += [f"## {LOAD.name}, by query", "", *_queries(run, LOAD.name)]
        lines += ["## Hidden tables after the last step", "", *_hidden(run)]
        for step in STEPS:
            if step.name in run.steps:
                changed = _changed(run.steps[step.name].changed)
                lines += [f"## {step.name}, by query", "", f"{changed}.", ""]
                lines += [*_queries(run, step.name), *_sources(run.steps[step.name])]
    elif run.duckdb or run.spark:
        lines += ["## Recomputing", "", *_recomputed(run)]
    lines += _small(run)
    return "\n".join(lines)


def _checked(run: Run) -> list[str]:
    if run.wrong:
        return [f"**Wrong results:** {', '.join(run.wrong)}."]
    versions = f" These are {len(run.queries)} queries at {len(run.steps)} versions."
    return [f"All results so far equal DuckDB's.{versions if run.steps else ''}"]


def _targets(run: Run) -> list[str]:
    rows = [[one.what, f"{one.found:.3f}", f"{one.most:.3f}", one.verdict] for one in targets(run)]
    return table(["", "found", "at most", "verdict"], rows)


def _sums(run: Run) -> list[str]:
    """Return a row for each step: the version beside recomputing all queries."""
    rows = []
    for name, step in run.steps.items():
        recomputed, seconds = run.recomputed(name), step.whole.seconds
        numbers = [f"{step.rows:,}", f"{seconds:.2f}", *_recomputes(run, recomputed)]
        numbers += [*_verdicts(seconds, recomputed), f"{sum(_own(run, step)):.2f}"]
        sizes = (step.whole.peak_memory_bytes, step.whole.bytes_written)
        numbers += [f"{step.settling:.2f}", f"{step.whole.commits:,}"]
        numbers += [f"{size / MIB:,.1f}" for size in sizes]
        rows.append([name, *numbers])
    header = ["step", "rows changed", "version s", *_peers(run), "against the better",
              "against Spark", "views s", "compaction s", "commits", "peak MiB",
              "MiB written"]  # fmt: skip
    return table(header, rows)


def _own(run: Run, step: StepCost) -> Iterable[float]:
    return (of_query(step, query).seconds for query in run.queries)


def _parts(steps: Mapping[str, StepCost]) -> list[str]:
    """Return the seconds of each version by its parts, and by its phases."""
    parts, phases = [], []
    for name, step in steps.items():
        by_stage = [step.seconds(sort) for sort in (SOURCE, HIDDEN, VIEW)]
        alone = sum(one.figures.seconds for one in shared(step))
        checking = step.phases.get("", {}).get("checking", 0.0)
        rest = step.whole.seconds - checking - sum(by_stage) - step.committing
        looking_up = step.phases.get(VIEW, {}).get("reading", 0.0)
        figures = (checking, *by_stage, alone, looking_up, step.committing, rest)
        parts.append([name, *(f"{seconds:.3f}" for seconds in figures)])
        for sort, by_phase in step.phases.items():
            told = (by_phase.get(phase) for phase in _PHASES)
            cells = [NO_FIGURE if seconds is None else f"{seconds:.3f}" for seconds in told]
            phases.append([name, sort if sort in (SOURCE, VIEW) else "the version", *cells])
    header = ["seconds of a version", "reading the batch", "sources", "hidden tables", "views",
              "shared hidden tables", "look-ups", "commits", "rest"]  # fmt: skip
    text = (
        "Shared hidden tables are part of the hidden tables; look-ups are part of the hidden "
        "tables and views. The phases are those that a store reports while it works."
    )
    return [
        text,
        "",
        *table(header, parts),
        *table(["step", "phases of", *_PHASES], phases, texts=2),
    ]


_PHASES: Final = ("planning", "checking", "reading", "computing", "comparing", "waiting",
                  "writing", "publishing")  # fmt: skip


def _queries(run: Run, name: str) -> list[str]:
    """Return a row for each query: what a step cost, beside recomputing the query."""
    step = run.steps[name]
    rows = []
    for query in run.queries:
        cost, recomputed = of_query(step, query), run.recomputes(name, query)
        beside = [*_recomputes(run, recomputed), *_verdicts(cost.seconds, recomputed)]
        rows.append([query, *_cost(cost, step), *beside])
    for one in shared(step):
        figures = one.figures
        read = QueryCost(figures.seconds, figures.seconds, figures.rows_read, 0, "shared")
        title = f"{figures.role} of {', '.join(one.owners)}"
        rows.append([title, *_cost(read, step), *[NO_FIGURE] * (len(_peers(run)) + 2)])
    total = sum(_own(run, step)) + sum(one.figures.seconds for one in shared(step))
    recomputed = run.recomputed(name)
    beside = [*_recomputes(run, recomputed), *_verdicts(total, recomputed)]
    rows.append(["sum", "", f"{total:.3f}", *[""] * 4, *beside])
    header = ["query", "mode", "ours s", "of it hidden", "keys", "read", "read / changed",
              *_peers(run), "against the better", "against Spark"]  # fmt: skip
    return table(header, rows, texts=2)


def _sources(step: StepCost) -> list[str]:
    """Return a row for each source that changed."""
    rows = []
    for one in step.stages:
        if one.sort == SOURCE and one.name in step.changed:
            figures, changed = one.figures, step.changed[one.name]
            numbers = [f"{figures.seconds:.3f}", f"{changed:,}", f"{figures.rows_read:,}"]
            rows.append([one.name, figures.mode, *numbers, f"{figures.rows_read / changed:,.1f}"])
    return table(["source", "mode", "s", "changed", "read", "read / changed"], rows, texts=2)


def _cost(cost: QueryCost, step: StepCost) -> list[str]:
    ratio = f"{cost.rows_read / step.rows:,.1f}"
    hidden = f"{cost.hidden:.3f}" if cost.hidden else ""
    numbers = [hidden, f"{cost.changed_keys:,}", f"{cost.rows_read:,}", ratio]
    return [cost.mode, f"{cost.seconds:.3f}", *numbers]


def _peers(run: Run) -> list[str]:
    names = {"duckdb": "DuckDB s", "spark": "Spark s"}
    return [name for peer, name in names.items() if peer in run.peers]


def _recomputes(run: Run, seconds: Mapping[str, float]) -> list[str]:
    known = [peer for peer in ("duckdb", "spark") if peer in run.peers]
    return [f"{seconds[peer]:.3f}" if peer in seconds else NO_FIGURE for peer in known]


def _verdicts(ours: float, recomputed: Mapping[str, float]) -> list[str]:
    """Return whether ours takes no longer than the better recompute, and than Spark's."""
    better = min(recomputed.values(), default=None)
    return [
        NO_FIGURE if other is None else f"{verdict(ours, other)}, {_times(ours, other)}"
        for other in (better, recomputed.get("spark"))
    ]


def _times(ours: float, other: float) -> str:
    return f"{ours / other:.2f} x" if other else NO_FIGURE


def _hidden(run: Run) -> list[str]:
    """Return the hidden tables of each query, with their rows and bytes."""
    step = list(run.steps.values())[-1]
    rows = [
        [", ".join(one.owners), one.role, f"{one.rows:,}", f"{one.bytes / MIB:,.2f}"]
        for one in step.hidden
    ]
    size = sum(one.bytes for one in step.hidden)
    rows.append(["sum", "", f"{sum(one.rows for one in step.hidden):,}", f"{size / MIB:,.2f}"])
    told = [f"- {query} runs as a whole: {', '.join(why)}." for query, why in run.reasons.items()]
    return [*table(["queries", "what", "rows", "MiB"], rows, texts=2), *told, *[""] * bool(told)]


def _recomputed(run: Run) -> list[str]:
    step = next(iter(run.duckdb), "")
    rows = [[query, *_recomputes(run, run.recomputes(step, query))] for query in run.queries]
    rows.append(["sum", *_recomputes(run, run.recomputed(step))])
    return table(["query", *_peers(run)], rows)


def _changed(changed: Mapping[str, int]) -> str:
    return " and ".join(f"{rows:,} rows of {name}" for name, rows in changed.items())


def _small(run: Run) -> list[str]:
    """Return the figures of dashboards and of single changes."""
    lines = []
    if run.dashboards:
        rows = [
            [str(views), f"{median(seconds):.3f}", f"{min(seconds):.3f}", f"{max(seconds):.3f}"]
            for views, seconds in run.dashboards.items()
        ]
        text = (
            "Views that group the join of orders, lines and customers by different columns. A "
            "version deletes the orders of RF1 with their lines, or adds them again."
        )
        header = ["views", "version s, median", "least", "most"]
        lines += ["## Dashboards", "", text, "", *table(header, rows)]
    if run.changes:
        rows = [
            [views, what, f"{median(seconds):.3f}", f"{min(seconds):.3f}", f"{max(seconds):.3f}"]
            for (views, what), seconds in run.changes.items()
        ]
        text = f"One view in a store, of tables with {run.change_rows:,} rows each."
        header = ["view of", "changed", "version s, median", "least", "most"]
        lines += ["## One changed row", "", text, "", *table(header, rows, texts=2)]
    return [*lines, *_first_loads(run.first_loads)]


def _first_loads(loads: Mapping[str, FirstLoads]) -> list[str]:
    """Return a row for each query: its first load in Spark beside inserts of the same rows."""
    if not loads:
        return []
    rows = []
    for query, one in loads.items():
        ours, inserts = one.seconds
        pairs = [one.medians(figure) for figure in _OF_LOADS.values()]
        numbers = [f"{mine:,.{digits}f} / {other:,.{digits}f}"
                   for (mine, other), digits in zip(pairs, _DIGITS, strict=True)]  # fmt: skip
        told = f"{verdict(ours, inserts * FIRST_LOAD_RATIO)}, {_times(ours, inserts)}"
        rows.append([query, str(one.hidden), *numbers, told])
    header = ["query", "hidden tables", *_OF_LOADS, "seconds"]
    return ["## First loads in Spark", "", _ABOUT_LOADS, *table(header, rows)]


_OF_LOADS: Final[Mapping[str, Callable[[Load], float]]] = {
    "s": lambda load: load.step.seconds,
    "processor s": lambda load: load.cpu_seconds,
    "jobs": lambda load: load.jobs,
    "stages": lambda load: load.stages,
    "tasks": lambda load: load.tasks,
    "commits": lambda load: load.step.commits,
    "MiB written": lambda load: load.step.bytes_written / MIB,
}
_DIGITS: Final = (2, 2, 0, 0, 0, 0, 2)
_ABOUT_LOADS: Final = """\
Each view is loaded alone into a store with a session that processes all rows in Spark, as on a
cluster where the driver is never sooner. Beside it Spark inserts the rows of the query's text, and
those of each hidden table, into Delta tables (`INSERT OVERWRITE`), from the same stored rows of the
sources. Ours also writes updates and publishes a version. Each pair is ours / inserted, the median
of three after one that warms up. *Good* is at most 1.3 times the seconds.
"""
