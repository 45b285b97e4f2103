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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from textwrap import dedent
from types import CellType, FunctionType
from typing import Any, Final

from deltaproduce.model.retention import Retention
from deltaproduce.model.windows import Window
from deltaproduce.shown.tabular import one_line
from deltaproduce.types.catalogue import has_instants
from deltaproduce.types.columns import RowSchema


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a stage's rows, as people read it.

    Attributes:
        language: ``python`` or ``sql``.
    """

    language: str
    text: str

    @staticmethod
    def of_functions(*functions: Callable[..., Any]) -> Definition | None:
        """Return the source text of functions, and of the functions in their closures.

        None if a given function has no source text.
        """
        texts: dict[str, None] = {}
        for function in functions:
            text = _source_text(function)
            if text is None:
                return None
            texts[text] = None
        texts |= dict.fromkeys(filter(None, map(_source_text, _taken(functions))))
        return Definition("python", "\n\n".join(texts))


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
    """What a source does with rows that a user gives.

    Attributes:
        takes_rows: whether a user may give rows for it.
        unique: whether a key that is given twice in one batch is refused.
        retention: the rows that it keeps; None if all.
    """

    takes_rows: bool = False
    unique: bool = False
    retention: Retention | None = None


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
        note: what a plan says of its incremental steps besides their inputs; None if nothing.
    """

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
    note: str | None = None

    @property
    def obstacle(self) -> str | None:
        """Why it is no stage of which only changed keys are ever made; None if it is one."""
        return self.recomputes or self.may_recompute


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """What the keys of a stage are besides keys.

    Attributes:
        is_index: whether it has one row for each row of its one feeder, under another key.
        group_width: how many of the first key columns identify a group of adjacent rows, of which a
            step may read only the first or the last; 0 if there are no groups.
    """

    is_index: bool = False
    group_width: int = 0


NO_INTAKE: Final = Intake()
NO_PARTITIONS: Final = TaskPartitions()
UPKEEP: Final = Upkeep()
NO_ORDER: Final = KeyOrder()


class Kind(ABC):
    """The kind of a stage; a frozen value of its own class for each kind."""

    __slots__ = ()

    def __repr__(self) -> str:
        called = getattr(self.called, "__name__", None)
        return one_line(self, called or self.place)

    @property
    @abstractmethod
    def word(self) -> str:
        """The kind's name; versions store it in the stage's fingerprint."""

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The tables that a store has of such a stage, from `layouts.KINDS`."""

    @property
    def row_definition(self) -> object:
        """The definition of its rows: functions, texts, plain values; None if its rows are given.

        A change to it causes the stage to be produced again.
        """
        return None

    def definition(self, feeders: Sequence[str]) -> Definition | None:
        """Return the definition of its rows, as its user would write it; None if there is no text.

        Args:
            feeders: the names of the stages that it reads.
        """
        del feeders
        return None if self.called is None else Definition.of_functions(self.called)

    @property
    def maker(self) -> str:
        """The sort of its definition: ``function``, ``query`` or ``definition``."""
        return "definition" if self.called is None else "function"

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function that calling the stage calls; None if there is none."""
        return None

    @property
    def calls_user(self) -> bool:
        """Whether functions of the user are called to make its rows."""
        return self.called is not None

    @property
    def intake(self) -> Intake:
        """What it does with rows that a user gives."""
        return NO_INTAKE

    @property
    def tasks(self) -> TaskPartitions:
        """The partitions by which tasks read or make its rows."""
        return NO_PARTITIONS

    @property
    def upkeep(self) -> Upkeep:
        """How it follows the changes of its feeders."""
        return UPKEEP

    @property
    def order(self) -> KeyOrder:
        """What its keys are besides keys."""
        return NO_ORDER

    @property
    def place(self) -> str | None:
        """The path or name of the external Delta table with its rows."""
        return None

    @property
    def lists_columns(self) -> bool:
        """Whether its definition names all its columns."""
        return True

    @property
    def numbered(self) -> str | None:
        """The value column with the target key's number, which a key keeps over versions."""
        return None

    @property
    def window(self) -> Window | None:
        """The window of its feeder's partitions that it covers; None if it covers all rows."""
        return None

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

    def passed_on(self, column: str) -> str | None:
        """Return the feeder's column that a column of the stage copies; None if it copies none."""
        del column
        return None

    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:  # noqa: B027
        """Refuse a definition that a stage of this kind cannot have.

        Args:
            schema: the stage's columns.
            inputs: the number of its inputs.

        Raises:
            DefinitionError: with `stage`.
        """
