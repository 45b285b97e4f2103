"""Kinds: what a stage is, as far as it can be said without a session.

A kind is a value that a stage carries: rows that are given, a table of others, a function by key, a
query. The graph, plans and versions ask it what they have to know, so none of them tells kinds
apart; what it does with rows it says in `stages.kind`. The invariant: the answers depend on the
definition alone.
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
from deltaproduce.types.columns import RowSchema


class KeyRows(Protocol):
    """One source key and its rows, as the oracle hands them to a kind's `Kind.model`.

    Attributes:
        key: as a function gets it.
        values: those of each input, in order, as a function gets them.
    """

    @property
    def key(self) -> Any: ...  # noqa: ANN401, D102 see the class

    @property
    def values(self) -> Sequence[Sequence[Any]]: ...  # noqa: D102 see the class

    def table(self) -> Any:  # noqa: ANN401 a pyarrow Table
        """The rows of the only input as a pyarrow Table."""

    def emissions(self, table: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401
        """What a table says that was made of `table`: pairs of target key and value."""


Model: TypeAlias = Callable[[KeyRows], Iterable[tuple[Any, Any]]]
"""What a stage makes of a source key's rows, in plain Python: pairs of target key and value."""


ModelOfAll: TypeAlias = Callable[
    [Iterable[Mapping[str, Any]]], Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]
]
"""What a stage makes of all rows of its feeders, by column name, in plain Python: keys, values."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What makes a stage's rows, as people read it.

    Attributes:
        language: ``python`` or ``sql``.
    """

    language: str
    text: str

    @staticmethod
    def of_functions(*functions: Callable[..., Any]) -> Definition | None:
        """The source text of functions, and of those that they take from around them.

        None if one of those that are given has none.
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
    """The source text of a function; None if it has none."""
    try:
        return dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        return None


def _taken(functions: Sequence[object]) -> list[FunctionType]:
    """The functions that others take from around them, once each, the nearest first."""
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
"""Beside the columns of such a row: what each value is made of, if the stage goes by states."""


class Kind(ABC):
    """What a stage is; a frozen value of its own class for each kind."""

    __slots__ = ()

    def __repr__(self) -> str:
        called = getattr(self.called, "__name__", None)
        return one_line(self, called or self.place)

    @property
    @abstractmethod
    def word(self) -> str:
        """What the kind is called; versions know it by that, in the stage's fingerprint."""

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The tables that a store has of such a stage, of `layouts.KINDS`."""

    @property
    def made_by(self) -> object:
        """What makes its rows: functions, texts, plain values; None if its rows are not made.

        Whoever changes it has the stage produced again.
        """
        return None

    def definition(self, feeders: Sequence[str]) -> Definition | None:
        """What makes its rows, as its user would write it; None if there is no such text.

        Args:
            feeders: the names of what it reads.
        """
        del feeders
        return None if self.called is None else Definition.of_functions(self.called)

    @property
    def maker(self) -> str:
        """What makes its rows, in a word: ``function``, ``query`` or ``definition``."""
        return "definition" if self.called is None else "function"

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function that calling the stage calls; None if there is none."""
        return None

    @property
    def calls_user(self) -> bool:
        """Whether functions of the user's are called to make its rows."""
        return self.called is not None

    @property
    def note(self) -> str | None:
        """What a plan says of its incremental steps beside what reached it; None if nothing."""
        return None

    @property
    def takes_rows(self) -> bool:
        """Whether a user may give rows for it."""
        return False

    @property
    def place(self) -> str | None:
        """The path or name of the Delta table of others that its rows are in."""
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
        """Whether values that it stores depend on those that their keys had before.

        Then it is not produced in full only to save time, and producing it again may give others.
        """
        return False

    @property
    def window(self) -> Window | None:
        """Of which partitions of its feeder it is; None if of all rows."""
        return None

    @property
    def retention(self) -> Retention | None:
        """Which of its rows a source keeps; None if all."""
        return None

    def reads_again(self, feeders: int) -> bool:
        """Whether a change may have it read rows of its feeders that have not changed.

        Then it cannot read a source that forgets rows.

        Args:
            feeders: how many stages it reads.
        """
        del feeders
        return True

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        """The columns by which tasks read its rows, or make them; none if it has no partitions."""
        return ()

    def expected(self, moment: datetime) -> Any | None:  # noqa: ANN401 a pyarrow Table
        """The partitions that a source is to have at a date; None if those that it has.

        They are a pyarrow Table of its partition columns.

        Args:
            moment: the date that is scheduled, in UTC.
        """
        del moment
        return None

    @property
    def scheduled(self) -> bool:
        """Whether its rows are made by tasks, a partition each, when a date is scheduled."""
        return False

    def passed_on(self, column: str) -> str | None:
        """Which column of the feeder one of the stage is, in all rows; None if it is made."""
        del column
        return None

    @property
    def is_index(self) -> bool:
        """Whether it has a row for each row of its one feeder, under another key."""
        return False

    @property
    def is_read_by_ends(self) -> bool:
        """Whether the first or the last rows of many that are beside each other are read alone."""
        return False

    @property
    def reads_states(self) -> bool:
        """Whether it goes by the states of its feeders, which may change where no value does."""
        return False

    @property
    def model(self) -> Model | None:
        """What the oracle runs in place of it; None if it has no such thing.

        It emits None in the column that is `numbered`, and values that are yet to be `settled`.
        """
        return None

    @property
    def model_of_all(self) -> ModelOfAll | None:
        """What the oracle runs in place of `model` where rows go with no one source key."""
        return None

    @property
    def model_of_parts(self) -> ModelOfAll | None:
        """As `model_of_all`, with what each value is made of in its place, for who merges them."""
        return None

    def settled(self, value: Any, example: Any) -> Any:  # noqa: ANN401 as the user's functions
        """The value to be stored in place of an emitted one.

        Args:
            example: what its key had before, or is given first; None if there is nothing.
        """
        del example
        return value

    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:  # noqa: B027
        """Refuse what a stage of this kind cannot be.

        Args:
            schema: the stage's columns.
            inputs: how many it reads.

        Raises:
            DefinitionError: with `stage`.
        """

    def due(self, since: datetime | None, now: datetime) -> str | None:
        """Why all of it is to be produced though nothing that it reads has changed; None if not.

        Args:
            since: when the newest version was published.
        """
        del since, now
        return None
