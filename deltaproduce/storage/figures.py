"""Figures: what a version did to one stage, and how its tables are read.

Pure values, and their JSON. The invariant: figures read back as they were written; fields that a
later release added are ignored, and text that no store has written is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from types import MappingProxyType
from typing import Any, Final, Literal

from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.checks.recorded import from_json as checks_from_json
from deltaproduce.model.checks.recorded import to_json as checks_to_json
from deltaproduce.model.checks.results import CheckResult
from deltaproduce.model.hidden import role_of_name
from deltaproduce.model.window_moves import WindowMove
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.storage.window_states import (
    NO_WINDOWS,
    WindowState,
    is_move,
    move_from_json,
    move_to_json,
    state_from_json,
    state_to_json,
)
from deltaproduce.times.zones import known as known_zone
from deltaproduce.types.json.fields import (
    Kind,
    fields,
    is_integer,
    is_number,
    is_text,
    is_texts,
    objects_of,
    optional,
    parsed,
)

Mode = Literal["skipped", "seek", "merge", "rewrite", "full", "restore"]

_REPORTED: Final = (
    "mode",
    "reason",
    "affected_keys",
    "changed_keys",
    "rows_added",
    "rows_removed",
    "rows",
    "rows_read",
    "bytes_read",
    "seconds",
)
_IN_SHORT: Final = (
    "mode",
    "affected_keys",
    "changed_keys",
    "rows_added",
    "rows_removed",
    "rows",
    "seconds",
)
_LEFT: Final = (
    "rows_expired",
    "rows_not_taken",
    "tasks",
    "ties",
    "driver_seconds",
    "spark_seconds",
)
"""Fields that are shown and stored only if they are not empty."""


@dataclass(frozen=True, slots=True)
class Base:
    """How a stage's rows are read: from a base (content and key mappings) and the runs on top.

    Attributes:
        added: kind -> the number of commits that added to the table since its rows were last put in
            order. At 0 the files of the delta version are the rows, in order.
        folded: the version whose rows the content and key mappings tables hold.
        runs: how many later runs are in the table of runs only.
        run_rows: how many rows these runs have.
        stored: how files keep the content, as JSON; empty for the default, by key.
        scattered: how many rows of content were written beside the others since all were last put
            in order.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    folded: int = 0
    runs: int = 0
    run_rows: int = 0
    stored: str = ""
    scattered: int = 0


@dataclass(frozen=True, slots=True)
class Numbering:
    """The surrogate numbers of a stage.

    Attributes:
        surrogates: the last number given out, in this version or before.
        surrogate: their column, if there is one.
    """

    surrogates: int = 0
    surrogate: str | None = None


@dataclass(frozen=True, slots=True)
class StageColumns:
    """The columns of a stage's tables, as DDL.

    Attributes:
        source_key: the key columns of the feeders that they were made from; empty for a source.
        states: the columns of states, if it has any.
    """

    key: str = ""
    value: str = ""
    source_key: str = ""
    states: str = ""

    @property
    def own(self) -> tuple[str, str]:
        """The columns that its updates have too."""
        return self.key, self.value


@dataclass(frozen=True, slots=True)
class Origin:
    """The Delta table that is the content of a source read in place.

    Attributes:
        table: its path or name; empty for all other stages.
        table_id: Delta's id of the table.
        table_micros: the commit time of the delta version that is read, in microseconds since 1970.
    """

    table: str = ""
    table_id: str = ""
    table_micros: int = 0


@dataclass(frozen=True, slots=True)
class Past:
    """How far back a stage's tables record what happened to it.

    Attributes:
        begun: the version whose updates are all its rows, if a repair began the updates again, or a
            source read in place began; else 0. For such a source these updates are not stored; the
            rows are in the table, at the delta version `begun_at`.
        begun_at: this delta version; -1 if the updates are stored.
        remade: kind -> the version that recreated a table which someone else had removed. Older
            versions pin delta versions of a table that no longer exists.
    """

    begun: int = 0
    begun_at: int = 0
    remade: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What one version did to one stage.

    Attributes:
        mode: ``skipped`` (not touched), ``seek`` (affected rows found by predicate and replaced),
            ``merge`` (found by a join with the whole table, and replaced), ``rewrite`` (the content
            rewritten, in order), ``full`` (computed from all of the feeder) or ``restore`` (reset
            to an earlier state).
        reason: the reason for this mode, in words.
        affected_keys: the number of target keys that were processed.
        changed_keys: the number of target keys in this version's updates.
        rows_added: the number of new content rows.
        rows_removed: the number of content rows that are gone.
        rows: the number of content rows in this version.
        row_bytes: about how many bytes a row has in memory.
        rows_read: the number of rows read of stored tables, of its feeders and its own: all rows of
            the row groups that were opened. Rows that the store holds in memory are not counted;
            for reads by Spark it is an upper bound.
        bytes_read: the bytes of these row groups, compressed as they are stored; if only Spark sees
            the files, the bytes of the rows in memory.
        seconds: wall time of the stage's computation, without its commits.
        driver_seconds: where executors are other machines, how long the step was estimated to take
            on the driver, for the most of its rows that could be in either place; else 0.
        spark_seconds: the same in Spark. It ran where it takes less, within the store's `Limits`.
        delta_versions: ``content``, ``key_mappings``, ``updates`` and, with merge on read, ``runs``
            -> the Delta table's version. If there are runs, the first two lack their rows:
            `Version.delta_version` says so. For a source that is read in place, ``content`` is that
            of its own table.
        base: how the rows are read from these tables.
        numbering: its surrogate numbers.
        columns: the columns of the tables.
        origin: the table that a source is read from in place.
        past: how far back the tables record what happened.
        window: where its window is, and how it got there; None if it has none.
        rows_expired: for a source with ``retain``, the number of rows dropped with their
            partitions.
        rows_not_taken: for such a source, the number of given rows in partitions that it does not
            keep.
        tasks: for a stage that keeps records of tasks, the tasks that were computed.
        ties: for a stage of events (`Pipeline.latest`, `Pipeline.history`), the number of events of
            the affected keys that are not shown because another one is equal in the sequence: n - 1
            of n.
        role: what a hidden stage is for (`Hidden.role`); empty for a stage that a user defines.
        keys: the number of keys in this version; None if it was not counted.
    """

    mode: Mode
    reason: str = ""
    affected_keys: int = 0
    changed_keys: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    rows: int = 0
    row_bytes: int = 0
    seconds: float = 0.0
    delta_versions: Mapping[str, int] = field(default_factory=dict)
    base: Base = Base()
    numbering: Numbering = Numbering()
    columns: StageColumns = StageColumns()
    origin: Origin = Origin()
    past: Past = Past()
    window: WindowMove | None = None
    rows_read: int = 0
    bytes_read: int = 0
    driver_seconds: float = 0.0
    spark_seconds: float = 0.0
    rows_expired: int = 0
    rows_not_taken: int = 0
    tasks: tuple[str, ...] = ()
    role: str = ""
    ties: int = 0
    keys: int | None = None

    def __repr__(self) -> str:
        return one_line(self, Word(self.mode), changed_keys=self.changed_keys, rows=self.rows)

    def as_dict(self) -> dict[str, Any]:
        """What is of use to who reads them, as JSON has it: all but how the tables are read."""
        figures = {name: getattr(self, name) for name in _REPORTED}
        window = {} if self.window is None else {"window": move_to_json(self.window)}
        left = {name: getattr(self, name) for name in _LEFT if getattr(self, name)}
        return {**figures, **left, "delta_versions": dict(self.delta_versions), **window}

    def in_short(self) -> dict[str, Any]:
        """What is said in a line about the stage."""
        return {name: getattr(self, name) for name in _IN_SHORT}

    def at(self, delta_versions: Mapping[str, int]) -> StageFigures:
        """The same figures, with some tables, by kind, at these delta versions."""
        if not delta_versions:
            return self
        return replace(self, delta_versions={**self.delta_versions, **delta_versions})

    def having_read(self, rows: int, size: int) -> StageFigures:
        """The same figures, with more rows and bytes that were read."""
        if not rows and not size:
            return self
        return replace(self, rows_read=self.rows_read + rows, bytes_read=self.bytes_read + size)

    def in_role(self, role: str) -> StageFigures:
        """The same figures, of a stage that has this role."""
        return self if self.role == role else replace(self, role=role)

    def carried(self) -> StageFigures:
        """The figures of the same stage in a next version that does not touch it."""
        return replace(
            self,
            mode="skipped",
            reason="not reached",
            affected_keys=0,
            changed_keys=0,
            rows_added=0,
            rows_removed=0,
            rows_read=0,
            bytes_read=0,
            driver_seconds=0.0,
            spark_seconds=0.0,
            rows_expired=0,
            rows_not_taken=0,
            tasks=(),
            ties=0,
            seconds=0.0,
        )


NO_TABLES: Final = StageFigures("skipped")
"""The figures of a stage that is in no version yet."""

_Part = Base | Numbering | StageColumns | Origin | Past

_NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})
_TEXT: Final = "definition"
"""The name of the text next to the figures of a stage."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """The place of a source's content in someone else's table.

    Attributes:
        table: its path or name, as the pipeline gives it.
        id: Delta's id of the table.
        micros: the commit time of that delta version, in microseconds since 1970.
    """

    table: str
    id: str
    delta_version: int
    micros: int

    @staticmethod
    def of(figures: StageFigures) -> InPlace | None:
        """Return the place of a source in a version; None if it has no rows there."""
        origin, pinned = figures.origin, figures.delta_versions.get("content")
        if not origin.table or pinned is None:
            return None
        return InPlace(origin.table, origin.table_id, pinned, origin.table_micros)

    def pinned(self, figures: StageFigures) -> StageFigures:
        """Return figures that record this place."""
        return replace(
            figures,
            delta_versions={**figures.delta_versions, "content": self.delta_version},
            origin=Origin(self.table, self.id, self.micros),
        )


@dataclass(frozen=True, slots=True)
class RecordedFigures:
    """What the version log has of one version as JSON: the arguments of `figures_to_json`."""

    stages: Mapping[str, StageFigures] = field(default_factory=dict)
    windows: WindowState = NO_WINDOWS
    texts: Mapping[str, str] = field(default_factory=dict)
    time_zone: str | None = None
    seconds: float | None = None
    checks: tuple[CheckResult, ...] = ()


def figures_to_json(
    stages: Mapping[str, StageFigures],
    windows: WindowState = NO_WINDOWS,
    texts: Mapping[str, str] = _NO_TEXTS,
    time_zone: str | None = None,
    seconds: float | None = None,
    checks: Sequence[CheckResult] = (),
) -> str:
    """Return the JSON of the figures for the version log, with the state of any windows.

    Args:
        texts: stage -> the text of its definition, for the stages whose text is to be stored.
    """
    by_stage: dict[str, Any] = {name: stored(figures) for name, figures in stages.items()}
    for name in texts.keys() & stages.keys():
        by_stage[name][_TEXT] = texts[name]
    if windows != NO_WINDOWS:
        by_stage[_WINDOWS] = state_to_json(windows)
    if time_zone is not None:
        by_stage[_TIME_ZONE] = time_zone
    if seconds is not None:
        by_stage[_SECONDS] = seconds
    if checks:
        by_stage[_CHECKS] = checks_to_json(checks)
    return json.dumps(by_stage)


def stored(figures: StageFigures) -> dict[str, Any]:
    """Return a stage's figures as they are stored: by name, on one level.

    States, a window, rows read and how files keep the content appear only if they are not empty.
    """
    values = _values(figures)
    values.update((name, _values(values[name])) for name in _PARTS)
    for name in ("stored", "scattered"):
        if not values["base"][name]:
            del values["base"][name]
    if not figures.columns.states:
        del values["columns"]["states"]
    del values["window"]
    for name in ("rows_read", "bytes_read", "role", *_LEFT):
        if not values[name]:
            del values[name]
    if figures.keys is None:
        del values["keys"]
    if figures.window is not None:
        values["window"] = move_to_json(figures.window)
    flat = [values[name] if name in _PARTS else {name: values[name]} for name in values]
    return {name: value for part in flat for name, value in part.items()}


def _values(part: StageFigures | _Part) -> dict[str, Any]:
    """Return its fields by name; `dataclasses.asdict` would copy all that is in them."""
    return {one.name: getattr(part, one.name) for one in fields_of(part)}


def figures_from_json(text: str) -> RecordedFigures:
    """Parse the output of `figures_to_json`.

    Raises:
        CorruptStoreError: someone else wrote the text.
    """
    values = parsed(text)
    if not isinstance(values, dict) or not is_texts(list(values)):
        raise _foreign(text)
    windows_text, time_zone = values.pop(_WINDOWS, None), values.pop(_TIME_ZONE, None)
    seconds, checks = values.pop(_SECONDS, None), checks_from_json(values.pop(_CHECKS, []))
    windows = NO_WINDOWS if windows_text is None else state_from_json(windows_text)
    figures = {name: figures_of(of_stage) for name, of_stage in values.items()}
    stages = {n: _with_role(n, known) for n, known in figures.items() if known is not None}
    is_zone = time_zone is None or (is_text(time_zone) and known_zone(time_zone) == time_zone)
    are_known = len(stages) == len(figures) and optional(is_number)(seconds)
    if windows is None or checks is None or not are_known or not is_zone:
        raise _foreign(text)
    texts = {name: of_stage[_TEXT] for name, of_stage in values.items() if _TEXT in of_stage}
    if not is_texts(list(texts.values())):
        raise _foreign(text)
    return RecordedFigures(stages, windows, texts, time_zone, seconds, checks)


def figures_of(value: object) -> StageFigures | None:
    """Return a stage's figures by name, without those that a later release added.

    None if they are not figures of a stage.
    """
    values = fields(value, _FIGURES, required=("mode",))
    if values is None:
        return None
    for name, part in _PARTS.items():
        of_part = [one for one in part.__dataclass_fields__ if one in values]
        values[name] = part(**{one: values.pop(one) for one in of_part})
    values["tasks"] = tuple(values.get("tasks", ()))
    if values.get("window") is not None:
        values["window"] = move_from_json(values["window"])
    return StageFigures(**values)


def _with_role(name: str, figures: StageFigures) -> StageFigures:
    """Return the figures of a stage with its role, which earlier releases did not record."""
    return figures if figures.role else replace(figures, role=role_of_name(name))


def _foreign(text: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the version log has figures that no store has written: {text[:_SHOWN]!r}; "
        "store.repair() sets it back, or restore the table from a backup",
        table="_versions",
    )


_SHOWN: Final = 100
_WINDOWS: Final = "_windows"
"""The name of the windows next to the stages; no stage name begins like this."""
_TIME_ZONE: Final = "_time_zone"
"""The name of the time zone next to the stages."""
_SECONDS: Final = "_seconds"
_CHECKS: Final = "_checks"
_KINDS: Final[Mapping[str, Kind]] = {
    "Mode": is_text,  # a later release may have another mode
    "str": is_text,
    "str | None": optional(is_text),
    "int": is_integer,
    "int | None": optional(is_integer),
    "float": is_number,
    "Mapping[str, int]": objects_of(is_integer),
    "tuple[str, ...]": is_texts,
    "WindowMove | None": optional(is_move),
}
_PARTS: Final[Mapping[str, type[_Part]]] = {
    "base": Base,
    "numbering": Numbering,
    "columns": StageColumns,
    "origin": Origin,
    "past": Past,
}
_FIGURES: Final[Mapping[str, Kind]] = {
    name: _KINDS[str(known.type)]
    for part in (StageFigures, *_PARTS.values())
    for name, known in part.__dataclass_fields__.items()
    if name not in _PARTS
}
