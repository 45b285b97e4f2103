"""A user's own aggregates: which objects are valid, and when two are the same.

The invariant: equal aggregates compute the same, as far as fingerprints see it: by the code of
their methods and of their base classes' methods, and the plain values that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.model.fingerprints import described
from deltaproduce.types.columns import Column, column_of

_BY_VALUE: Final = ("zero", "add", "merge", "result"), ("subtract", "identity_of")
_OVER_ARROW: Final = ("add", "merge", "result"), ("subtract",)
"""The required methods, and the optional ones."""


@dataclass(frozen=True, slots=True)
class OwnAggregate:
    """A user's object as an aggregate function.

    Attributes:
        methods: the object.
        name: the name of its class.
        state: the state of a group, as a column.
        value: its values, as a column.
        inputs: the columns that it takes, if it takes whole columns; None if it takes values.
        text: what it computes, as fingerprints see it.
    """

    methods: Any = field(compare=False)
    name: str
    state: Column
    value: Column
    inputs: tuple[Column, ...] | None
    text: str

    @staticmethod
    def of(aggregate: object) -> OwnAggregate:
        """Return an object as an aggregate function; none of its methods is called.

        Raises:
            DefinitionError: it is none.
        """
        if isinstance(aggregate, type):
            message = f"agg.own is given the class {aggregate.__name__}; give an object of it"
            raise DefinitionError(message)
        name = type(aggregate).__name__
        inputs = _inputs(aggregate, name)
        needed, optional = _BY_VALUE if inputs is None else _OVER_ARROW
        for method in (*needed, *optional):
            given = getattr(aggregate, method, None)
            if not callable(given) and (given is not None or method in needed):
                raise DefinitionError(
                    f"agg.own is given {name}, whose {method} is {given!r}; it needs the methods "
                    f"{', '.join(needed)}, and may have {' and '.join(optional)}"
                )
        state, value = (
            _column(part, getattr(aggregate, part, None), name) for part in ("state", "type")
        )
        members = sorted(dict(_members(aggregate)).items())
        text = described((name, state.ddl, value.ddl, members))
        return OwnAggregate(aggregate, name, state, value, inputs, text)

    @staticmethod
    def among(parameters: Iterable[object]) -> OwnAggregate | None:
        """Return the user's aggregate among the parameters of a call; None if there is none."""
        return next((one for one in parameters if isinstance(one, OwnAggregate)), None)

    def __repr__(self) -> str:
        """Return the name as the text of a call has it."""
        return self.name

    @property
    def subtracts(self) -> bool:
        """Whether it can subtract one state from another."""
        return getattr(self.methods, "subtract", None) is not None

    @property
    def tells_identity(self) -> bool:
        """Whether it tells if a state is that of no rows."""
        return self.inputs is None and getattr(self.methods, "identity_of", None) is not None


def _inputs(aggregate: object, name: str) -> tuple[Column, ...] | None:
    """Return the columns that an object takes as a whole; None if it declares none."""
    given = getattr(aggregate, "input_types", None)
    if given is None:
        return None
    if not isinstance(given, tuple | list) or not given:
        raise DefinitionError(
            f"agg.own is given {name}, whose input_types is {given!r}; give a tuple of types in DDL"
        )
    return tuple(_column(f"input_types[{n}]", one, name) for n, one in enumerate(given))


def _column(part: str, given: object, name: str) -> Column:
    """Return a type that an object declares, as a column."""
    try:
        return column_of(part, given)  # type: ignore[arg-type]  # anything may be given
    except DefinitionError as error:
        what = f"agg.own is given {name}, whose {part} is {given!r}; give one type in DDL"
        message = f"{what}: {error}"
        raise DefinitionError(message) from None


def _members(aggregate: object) -> Iterator[tuple[str, object]]:
    """Return an object's members and those of its classes, by name; the most derived come last."""
    for kind in reversed(type(aggregate).__mro__[:-1]):
        for name, member in vars(kind).items():
            if not (name.startswith("__") and name.endswith("__")):
                yield name, _code(member)
    held: Mapping[str, object] = getattr(aggregate, "__dict__", {})
    slots = chain.from_iterable(map(_slots, reversed(type(aggregate).__mro__)))
    yield from ((name, getattr(aggregate, name)) for name in slots if hasattr(aggregate, name))
    yield from held.items()


def _slots(kind: type) -> Iterator[str]:
    """Return the attribute names of a class's own slots."""
    given = vars(kind).get("__slots__", ())
    for name in (given,) if isinstance(given, str) else given:
        is_private = name.startswith("__") and not name.endswith("__")
        yield f"_{kind.__name__.lstrip('_')}{name}" if is_private else name


def _code(member: object) -> object:
    """Return a member of a class as fingerprints see it."""
    match member:
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
    return member
