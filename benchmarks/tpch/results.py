"""What a run has found so far, as values, and what follows: seconds by query, verdicts, targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.tpch.first_loads import FirstLoads
from benchmarks.tpch.ours import HIDDEN, SOURCE, StageCost, StepCost
from benchmarks.tpch.peers import Recomputed

REFRESHES: Final = ("RF1", "RF2")
SMALL: Final = ("100 orders", "100 more orders")
LARGE: Final = ("1 % changed", "10 % changed")
REFRESH_SECONDS: Final[Mapping[float, float]] = {1: 3.0, 10: 6.0}
"""The scale factor -> the most seconds of RF1 and RF2 together."""
SMALL_SECONDS: Final[Mapping[float, float]] = {1: 0.6, 10: 1.2}
"""The scale factor -> the most seconds of each of `SMALL`."""
SOURCE_SECONDS: Final[Mapping[float, float]] = {1: 0.3}
"""The scale factor -> the most seconds that the sources take of RF1, and of RF2."""
DASHBOARD_RATIO: Final = 3.0
FIRST_LOAD_RATIO: Final = 1.3
"""The most seconds of all first loads over those of inserting the same rows."""
ONE_CHANGE_SECONDS: Final = {"one table": 0.1, "one partition": 0.5, "join of three": 0.3}
"""The view -> the most seconds of a version with one changed row."""


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a version cost for one query: its view, and the hidden tables of this view alone.

    Attributes:
        hidden: the part of the seconds that its hidden tables took.
        changed_keys: the number of keys in the view's updates.
    """

    seconds: float
    hidden: float
    rows_read: int
    changed_keys: int
    mode: str


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its target; both in the same unit."""

    what: str
    found: float
    most: float

    @property
    def verdict(self) -> str:
        """Whether it is met."""
        return verdict(self.found, self.most)


@dataclass(slots=True)
class Run:
    """What a run has found so far.

    Attributes:
        steps: the step -> what ours cost.
        duckdb: the step -> query -> DuckDB's recompute after it.
        spark: query -> Spark's recompute after the last step.
        reasons: query -> why it runs as a whole at each change.
        wrong: what differs from DuckDB.
        dashboards: the number of views -> the seconds of versions of a refresh.
        first_loads: query -> its first loads in Spark, and inserts of the same rows.
        change_rows: the rows of each table in which single rows change.
        changes: the view, and what changed -> the seconds of versions of one changed row.
    """

    command: str
    scale: float
    peers: tuple[str, ...]
    queries: tuple[str, ...]
    steps: dict[str, StepCost] = field(default_factory=dict)
    duckdb: dict[str, dict[str, Recomputed]] = field(default_factory=dict)
    spark: dict[str, Recomputed] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    dashboards: dict[int, list[float]] = field(default_factory=dict)
    change_rows: int = 0
    first_loads: dict[str, FirstLoads] = field(default_factory=dict)
    changes: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    is_complete: bool = False

    def recomputes(self, step: str, query: str) -> dict[str, float]:
        """Return the seconds of recomputing a query after a step, by peer."""
        found = {}
        if "duckdb" in self.peers and step in self.duckdb:
            found["duckdb"] = self.duckdb[step][query].seconds
        if query in self.spark:
            found["spark"] = self.spark[query].seconds
        return found

    def recomputed(self, step: str) -> dict[str, float]:
        """Return the seconds of recomputing all queries after a step, by peer."""
        by_query = [self.recomputes(step, query) for query in self.queries]
        return {peer: sum(one[peer] for one in by_query) for peer in by_query[0]}


def verdict(found: float, most: float) -> str:
    """Return whether a figure is at most another."""
    return "good" if found <= most else "bad"


def of_query(step: StepCost, query: str) -> QueryCost:
    """Return what a version cost for a query."""
    own = [one for one in step.stages if one.owners == (query,)]
    hidden = sum(one.figures.seconds for one in own if one.sort == HIDDEN)
    view = next(one for one in own if one.sort != HIDDEN)
    seconds = hidden + view.figures.seconds
    rows_read = sum(one.figures.rows_read for one in own)
    return QueryCost(seconds, hidden, rows_read, view.figures.changed_keys, _mode(view))


def shared(step: StepCost) -> list[StageCost]:
    """Return the hidden tables of several queries."""
    return [one for one in step.stages if one.sort == HIDDEN and len(one.owners) > 1]


def targets(run: Run) -> list[Target]:
    """Return the targets of what has been measured."""
    seconds = {name: step.whole.seconds for name, step in run.steps.items()}
    found = []
    if run.scale in REFRESH_SECONDS and {*REFRESHES} <= seconds.keys():
        refreshes = sum(seconds[name] for name in REFRESHES)
        found.append(Target("RF1 and RF2, seconds", refreshes, REFRESH_SECONDS[run.scale]))
    if run.scale in SMALL_SECONDS:
        most = SMALL_SECONDS[run.scale]
        small = [name for name in SMALL if name in seconds]
        found += [Target(f"{name}, seconds", seconds[name], most) for name in small]
    if run.scale in SOURCE_SECONDS:
        for name in (one for one in REFRESHES if one in seconds):
            taken, most = run.steps[name].seconds(SOURCE), SOURCE_SECONDS[run.scale]
            found.append(Target(f"{name}, seconds of its sources", taken, most))
    if run.spark:
        for large in (one for one in LARGE if one in seconds):
            recomputed = run.recomputed(large)["spark"]
            found.append(Target(f"{large}, seconds, against Spark", seconds[large], recomputed))
    return found + _small_targets(run)


def median(seconds: list[float]) -> float:
    """Return the median of some seconds."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2]


def _small_targets(run: Run) -> list[Target]:
    found = []
    if len(run.dashboards) > 1:
        one, ten = (median(run.dashboards[views]) for views in sorted(run.dashboards))
        found.append(Target("ten views over one view, ratio", ten / one, DASHBOARD_RATIO))
    if run.first_loads:
        ours, inserts = map(
            sum, zip(*(one.seconds for one in run.first_loads.values()), strict=True)
        )
        what = "first loads in Spark over inserts, ratio"
        found.append(Target(what, ours / inserts, FIRST_LOAD_RATIO))
    for (views, what), seconds in run.changes.items():
        most = ONE_CHANGE_SECONDS[views]
        found.append(Target(f"view of {views}, {what}, seconds", median(seconds), most))
    return found


def _mode(view: StageCost) -> str:
    """Return how a view followed: incremental, not at all, or recomputed and why."""
    figures = view.figures
    if figures.mode == "skipped":
        return "not reached"
    return f"recompute: {figures.reason}" if figures.mode == "full" else "incremental"
