"""Aggregates of a user's own: what is taken for one, and when two are the same.

The invariant: equal ones compute the same, as far as fingerprints see it: by the code of their
methods, those of their base classes, and the plain values that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.model.fingerprints import described
from deltaproduce.types.columns import Column, column_of

_METHODS: Final = ("zero", "add", "merge", "result")
_OPTIONAL: Final = ("subtract", "identity_of")


@dataclass(frozen=True, slots=True)
class OwnAggregate:
    """An object that a user has made an aggregate function of.

    Attributes:
        methods: the object.
        name: its class's.
        state: what it keeps of a group, as a column.
        value: its values, as a column.
        text: what it computes, as fingerprints see it.
    """

    methods: Any = field(compare=False)
    name: str
    state: Column
    value: Column
    text: str

    @staticmethod
    def of(aggregate: object) -> OwnAggregate:
        """What an object is as an aggregate function; none of its methods is called.

        Raises:
            DefinitionError: it is none.
        """
        if isinstance(aggregate, type):
            message = f"agg.own is given the class {aggregate.__name__}; give an object of it"
            raise DefinitionError(message)
        name = type(aggregate).__name__
        for method in (*_METHODS, *_OPTIONAL):
            found = getattr(aggregate, method, None)
            if not callable(found) and (found is not None or method in _METHODS):
                raise DefinitionError(
                    f"agg.own is given {name}, whose {method} is {found!r}; it needs the methods "
                    f"{', '.join(_METHODS)}, and may have {' and '.join(_OPTIONAL)}"
                )
        state, value = (_column(aggregate, name, part) for part in ("state", "type"))
        members = sorted(dict(_members(aggregate)).items())
        text = described((name, state.ddl, value.ddl, members))
        return OwnAggregate(aggregate, name, state, value, text)

    @staticmethod
    def among(parameters: Iterable[object]) -> OwnAggregate | None:
        """The one that a function is called with; None if it is a function of the library's."""
        return next((one for one in parameters if isinstance(one, OwnAggregate)), None)

    def __repr__(self) -> str:
        """As the text of a call has it."""
        return self.name

    @property
    def subtracts(self) -> bool:
        """Whether it takes a state from another one."""
        return getattr(self.methods, "subtract", None) is not None


def _column(aggregate: object, name: str, part: str) -> Column:
    """What an object says of a type of its own."""
    given = getattr(aggregate, part, None)
    try:
        return column_of(part, given)  # type: ignore[arg-type]  # anything may be given
    except (DefinitionError, AttributeError) as error:
        why = f": {error}" if isinstance(error, DefinitionError) else ""
        message = f"agg.own is given {name}, whose {part} is {given!r}; give one type in DDL{why}"
        raise DefinitionError(message) from None


def _members(aggregate: object) -> Iterator[tuple[str, object]]:
    """What an object has of its own and of its classes, by name; the most special comes last."""
    for kind in reversed(type(aggregate).__mro__[:-1]):
        for name, member in vars(kind).items():
            if not (name.startswith("__") and name.endswith("__")):
                yield name, _code(member)
    held: Mapping[str, object] = getattr(aggregate, "__dict__", {})
    slots = chain.from_iterable(map(_slots, reversed(type(aggregate).__mro__)))
    yield from ((name, getattr(aggregate, name)) for name in slots if hasattr(aggregate, name))
    yield from held.items()


def _slots(kind: type) -> Iterator[str]:
    """The names under which a class's own slots are found."""
    given = vars(kind).get("__slots__", ())
    for name in (given,) if isinstance(given, str) else given:
        is_private = name.startswith("__") and not name.endswith("__")
        yield f"_{kind.__name__.lstrip('_')}{name}" if is_private else name


def _code(member: object) -> object:
    """A member of a class as fingerprints see it."""
    match member:
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
    return member
