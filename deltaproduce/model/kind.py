"""Kinds: what a stage is, without regard to a session.

A kind is a value that a stage carries: given rows, an external table, a function by key, a query.
The graph, plans and versions ask it for what they need, so none of them tells kinds apart;
`stages.kind` says what it does with rows. The invariant: the answers depend on the definition
alone.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from textwrap import dedent
from types import CellType, FunctionType
from typing import Any, Final, Protocol, TypeAlias

from deltaproduce.model.retention import Retention
from deltaproduce.model.windows import Window
from deltaproduce.shown.tabular import one_line
from deltaproduce.types.catalogue import has_instants
from deltaproduce.types.columns import RowSchema


class KeyRows(Protocol):
    """One source key and its rows, as the oracle passes them to a kind's `Kind.model`.

    Attributes:
        key: as a function gets it.
        values: the values of each input, in order, as a function gets them.
    """

    @property
    def key(self) -> Any: ...  # noqa: ANN401, D102 see the class

    @property
    def values(self) -> Sequence[Sequence[Any]]: ...  # noqa: D102 see the class

    def table(self) -> Any:  # noqa: ANN401 a pyarrow Table
        """Return the rows of the only input as a pyarrow Table."""

    def emissions(self, table: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401
        """Return the rows of a table computed from `table`, as pairs of target key and value."""


Model: TypeAlias = Callable[[KeyRows], Iterable[tuple[Any, Any]]]
"""A stage's function of one source key's rows, in plain Python: pairs of target key and value."""


ModelOfAll: TypeAlias = Callable[
    [Iterable[Mapping[str, Any]]], Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]
]
"""A stage's function of all rows of its feeders, by column name, in plain Python: keys, values."""


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
    found: list[FunctionType] = []
    border: Sequence[object] = functions
    while border:
        cells = chain.from_iterable(getattr(one, "__closure__", None) or () for one in border)
        held = [cell.cell_contents for cell in cells if cell != CellType()]
        nearest = [one for one in held if isinstance(one, FunctionType) and one not in found]
        found += nearest
        border = nearest
    return found


PARTS: Final = "_parts"
"""In such a row, next to its columns: the parts of each value, if the stage works on states."""


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
    def made_by(self) -> object:
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
    def note(self) -> str | None:
        """What a plan says of its incremental steps besides their inputs; None if nothing."""
        return None

    @property
    def unique(self) -> bool:
        """Whether a key that is given twice in one batch is refused."""
        return False

    @property
    def takes_rows(self) -> bool:
        """Whether a user may give rows for it."""
        return False

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
    def depends_on_history(self) -> bool:
        """Whether stored values depend on the values that their keys had before.

        If so, it is not produced in full merely to save time, and producing it again may give other
        values.
        """
        return False

    @property
    def window(self) -> Window | None:
        """The window of its feeder's partitions that it covers; None if it covers all rows."""
        return None

    @property
    def retention(self) -> Retention | None:
        """The rows that a source keeps; None if all."""
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

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        """The columns by which tasks read or make its rows; none if it has no partitions."""
        return ()

    def expected(self, moment: datetime) -> Any | None:  # noqa: ANN401 a pyarrow Table
        """Return the partitions that a source should have at a date; None if those that it has.

        They are a pyarrow Table of its partition columns.

        Args:
            moment: the scheduled date, on the clock of the store.
        """
        del moment
        return None

    @property
    def scheduled(self) -> bool:
        """Whether tasks make its rows, one partition each, when a date is scheduled."""
        return False

    def passed_on(self, column: str) -> str | None:
        """Return the feeder's column that a column of the stage copies; None if it copies none."""
        del column
        return None

    @property
    def is_index(self) -> bool:
        """Whether it has one row for each row of its one feeder, under another key."""
        return False

    @property
    def group_width(self) -> int:
        """How many of the first key columns identify a group of adjacent rows.

        A step may read only the first or the last of a group. 0 if there are no groups.
        """
        return 0

    @property
    def subtracts(self) -> bool:
        """Whether it subtracts the rows that its feeders lose from what it has."""
        return False

    @property
    def depends_on_all_columns(self) -> bool:
        """Whether a column that a feeder gets, without values, changes what is made of its rows."""
        return False

    @property
    def reads_by_key(self) -> bool:
        """Whether it reads its feeders by equal keys, which have the same types then."""
        return True

    @property
    def has_lineage(self) -> bool:
        """Whether it is known which keys of its feeders made which of its keys."""
        return True

    @property
    def recomputes(self) -> str | None:
        """Why all of it is made again whenever a feeder changes; None if only changed keys are."""
        return None

    @property
    def has_rows_of_nothing(self) -> bool:
        """Whether it may have rows though no feeder has ever had any."""
        return False

    @property
    def reads_states(self) -> bool:
        """Whether it works on the states of its feeders, which may change where no value does."""
        return False

    @property
    def model(self) -> Model | None:
        """What the oracle runs in place of it; None if there is no such function.

        It emits None in the column that is `numbered`, and values that are yet to be `settled`.
        """
        return None

    @property
    def model_of_all(self) -> ModelOfAll | None:
        """What the oracle runs in place of `model` where rows do not belong to one source key."""
        return None

    @property
    def model_of_parts(self) -> ModelOfAll | None:
        """Like `model_of_all`, but with the parts of each value in its place, to be merged."""
        return None

    def settled(self, value: Any, example: Any) -> Any:  # noqa: ANN401 as the user's functions
        """Return the value to store in place of an emitted one.

        Args:
            example: the key's value before, or its first value; None if there is neither.
        """
        del example
        return value

    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:  # noqa: B027
        """Refuse a definition that a stage of this kind cannot have.

        Args:
            schema: the stage's columns.
            inputs: the number of its inputs.

        Raises:
            DefinitionError: with `stage`.
        """
