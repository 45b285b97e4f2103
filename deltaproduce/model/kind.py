"""Kinds: what a stage is, without regard to a session.

A kind is a value that a stage carries: given rows, an external table, a function by key, a query.
The graph, plans and versions ask it for what they need, so none of them tells kinds apart. What
only some kinds do are values, such as `Upkeep`, whose defaults are those of a kind that does
nothing of the sort. `stages.kind` says what it does with rows. The invariant: the answers depend on
the definition alone.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from textwrap import dedent
from types import CellType, FunctionType
from typing import Any

from deltaproduce.model.retention import Retention
from deltaproduce.model.windows import Window
from deltaproduce.shown.tabular import one_line
from deltaproduce.types.catalogue import has_instants
from deltaproduce.types.columns import RowSchema


@dataclass(frozen=True, slots=True)
class Definition:
    """What defines the rows of a stage: functions, a query or other values; nothing if it is empty.

    Attributes:
        identity: functions, texts, plain values. A change to it causes the stage to be produced
            again.
        functions: those of its user that make the rows; calling the stage calls the first.
        sql: the query that its user wrote; functions get its rows, if there are any.
        constants: the values that names in the query stand for.
        written: returns a query that says the same, given the names of the stages that it reads.
        has_methods: whether methods of its user's own aggregates are called.
    """

    identity: object = None
    functions: tuple[Callable[..., Any], ...] = ()
    sql: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    written: Callable[[Sequence[str]], str] | None = None
    has_methods: bool = False

    @property
    def maker(self) -> str:
        """The sort of the definition: ``function``, ``query`` or ``definition``."""
        if self.functions:
            return "function"
        return "definition" if self.sql is None else "query"

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function that calling the stage calls; None if there is none."""
        return self.functions[0] if self.functions else None

    @property
    def language(self) -> str:
        """The language of its text: ``python`` or ``sql``."""
        return "python" if self.functions else "sql"

    def text(self, feeders: Sequence[str]) -> str | None:
        """Return the definition as its user would write it; None if there is no text.

        Of functions it has the source text, and that of the functions in their closures.

        Args:
            feeders: the names of the stages that the stage reads.
        """
        if self.functions:
            own = [text for text in map(_source_text, self.functions) if text is not None]
            others = filter(None, map(_source_text, _taken(self.functions)))
            is_known = len(own) == len(self.functions)
            return "\n\n".join(dict.fromkeys([*own, *others])) if is_known else None
        if self.sql is not None:
            return dedent(self.sql).strip()
        return None if self.written is None else self.written(feeders)


def _source_text(function: Callable[..., Any]) -> str | None:
    """Return the source text of a function; None if it has none."""
    try:
        return dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        return None


def _taken(functions: Sequence[object]) -> list[FunctionType]:
    """Return the functions in the closures of others, once each, the nearest first."""
    plain_functions: list[FunctionType] = []
    border: Sequence[object] = functions
    while border:
        cells = chain.from_iterable(getattr(one, "__closure__", None) or () for one in border)
        held = [cell.cell_contents for cell in cells if cell != CellType()]
        nearest = [
            one for one in held if isinstance(one, FunctionType) and one not in plain_functions
        ]
        plain_functions += nearest
        border = nearest
    return plain_functions


@dataclass(frozen=True, slots=True)
class Intake:
    """Which rows a source has, and where they are from.

    Attributes:
        takes_rows: whether a user may give rows for it.
        unique: whether a key that is given twice in one batch is refused.
        retention: the rows that it keeps; None if all.
        table: the path or name of the external Delta table with its rows; None if there is none.
        all_columns: whether its values are all other columns of that table; they are not declared.
        rows_of: the source that its rows come with; empty if they come by themselves.
    """

    takes_rows: bool = False
    unique: bool = False
    retention: Retention | None = None
    table: str | None = None
    all_columns: bool = False
    rows_of: str = ""


@dataclass(frozen=True, slots=True)
class TaskPartitions:
    """The partitions by which tasks read or make the rows of a stage.

    Attributes:
        columns: the columns that they are by; none if there are no partitions.
        expecting: returns the partitions that a source should have at a scheduled date, on the
            clock of the store, as a pyarrow Table of these columns; None for those that it has.
        make_rows: whether tasks make its rows, one partition each, when a date is scheduled.
    """

    columns: tuple[str, ...] = ()
    expecting: Callable[[datetime], Any] | None = None
    make_rows: bool = False


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How a stage follows the changes of its feeders.

    Attributes:
        window: the window of its feeder's partitions that it covers; None if it covers all rows.
        by_key: whether it reads its feeders by equal keys, which have the same types then.
        has_lineage: whether it is known which keys of its feeders made which of its keys.
        recomputes: why all of it is made again whenever a feeder changes; None if only changed keys
            are.
        may_recompute: why all of it may be made again at some changes, by the sizes of its feeders;
            None if never.
        of_nothing: whether it may have rows though no feeder has ever had any.
        subtracts: whether it subtracts the rows that its feeders lose from what it has.
        reads_states: whether it works on the states of its feeders, which may change where no value
            does.
        by_all_columns: whether a column that a feeder gets, without values, changes what is made of
            its rows.
        by_history: whether stored values depend on the values that their keys had before. If so, it
            is not produced in full merely to save time, and producing it again may give others.
        by_date: whether its rows depend on the date that a version is as of.
        full_from: from how many hundredths of rows of its feeders with changed keys on all of it is
            made again, as that is quicker; None for nearly all.
        note: what a plan says of its incremental steps besides their inputs; None if nothing.
    """

    window: Window | None = None
    by_key: bool = True
    has_lineage: bool = True
    recomputes: str | None = None
    may_recompute: str | None = None
    of_nothing: bool = False
    subtracts: bool = False
    reads_states: bool = False
    by_all_columns: bool = False
    by_history: bool = False
    by_date: bool = False
    full_from: int | None = None
    note: str | None = None

    @property
    def obstacle(self) -> str | None:
        """Why it is no stage of which only changed keys are ever made; None if it is one."""
        return self.recomputes or self.may_recompute


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What the keys of a stage are besides keys.

    Attributes:
        is_index: whether it has one row for each row of its one feeder, under another key.
        group_width: how many of the first key columns identify a group of adjacent rows, of which a
            step may read only the first or the last; 0 if there are no groups.
        numbered: the value column with the key's number, which a key keeps over versions.
        copied: the key columns that copy a feeder's column -> that column.
    """

    is_index: bool = False
    group_width: int = 0
    numbered: str | None = None
    copied: Mapping[str, str] = field(default_factory=dict)


class Kind(ABC):
    """The kind of a stage; a frozen value of its own class for each kind."""

    __slots__ = ()

    def __repr__(self) -> str:
        called = getattr(self.definition.called, "__name__", None)
        return one_line(self, called or self.intake.table)

    @property
    @abstractmethod
    def word(self) -> str:
        """The kind's name; versions store it in the stage's fingerprint."""

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The tables that a store has of such a stage, from `layouts.KINDS`."""

    @property
    def definition(self) -> Definition:
        """What defines its rows; nothing if they are given."""
        return Definition()

    @property
    def intake(self) -> Intake:
        """Which rows it has, and where they are from, if it is of a source."""
        return Intake()

    @property
    def tasks(self) -> TaskPartitions:
        """The partitions by which tasks read or make its rows."""
        return TaskPartitions()

    @property
    def upkeep(self) -> Upkeep:
        """How it follows the changes of its feeders."""
        return Upkeep()

    @property
    def key_use(self) -> KeyUse:
        """What its keys are besides keys."""
        return KeyUse()

    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """Return whether its rows may depend on the time zone of the store.

        Functions get timestamps as times of a clock, and return such times.

        Args:
            schema: the stage's columns.
            feeders: the columns of the stages that it reads.
        """
        every = chain.from_iterable((*one.key, *one.value) for one in (schema, *feeders))
        return any(has_instants(column.data_type) for column in every)

    def reads_again(self, feeders: int, column: str) -> bool:
        """Return whether a change may make it read rows of its feeders that are forgotten.

        These have not changed, and no row of their partitions changes any more. If so, it cannot
        read a source that forgets rows.

        Args:
            feeders: the number of stages that it reads.
            column: the column of their key whose partitions are forgotten, as the first names it.
        """
        del feeders, column
        return True

    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:  # noqa: B027
        """Refuse a definition that a stage of this kind cannot have.

        Args:
            schema: the stage's columns.
            inputs: the number of its inputs.

        Raises:
            DefinitionError: with `stage`.
        """
