"""Forms: the one type in which the values of two columns are compared.

Numbers of any width and decimals of any scale are compared as numbers, times with and without a
zone as instants in UTC, and floats as the narrower of both. Pure. The invariant: values that are
equal in SQL are equal in the form, and no form makes different values equal, but for fractions of
a second below a microsecond and what a float rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_MOST_DIGITS: Final = 38
"""Of a decimal of 128 bits."""
_INSTANT: Final = pa.timestamp("us")

_ATOMS: Final[Sequence[tuple[Callable[[pa.DataType], bool], pa.DataType]]] = (
    (pa.types.is_boolean, pa.bool_()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_timestamp, _INSTANT),
)
"""Types with one form, whatever their width."""


def common_form(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of two types are compared; None if there is none."""
    one, other = _plain(one), _plain(other)
    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    if _is_number(one) and _is_number(other):
        return _of_numbers(one, other)
    if pa.types.is_nested(one) and pa.types.is_nested(other):
        return _of_parts(one, other)
    first, second = _atom(one), _atom(other)
    if first != second and {first, second} == {pa.date32(), _INSTANT}:
        return _INSTANT
    return first if first == second else None


def is_same_sort(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether types with a common form differ in width, scale or zone at most."""
    one, other = _plain(one), _plain(other)
    if _is_number(one) and _is_number(other):
        return bool(pa.types.is_floating(one) == pa.types.is_floating(other))
    return pa.types.is_nested(one) or _atom(one) == _atom(other)


def in_form(rows: pa.Table, names: Sequence[str], forms: Sequence[pa.DataType]) -> pa.Table:
    """Return columns in their forms.

    Args:
        names: the columns that are taken, in their order.

    Raises:
        pa.ArrowException: a value does not fit, such as a time outside of the years of the form.
    """
    columns = [
        pc.cast(rows.column(name), options=_rounding(form))
        for name, form in zip(names, forms, strict=True)
    ]
    return pa.table(columns, [str(place) for place in range(len(columns))])


def _rounding(form: pa.DataType) -> pc.CastOptions:
    """Return how values become those of a form: times and floats are rounded, nothing overflows."""
    return pc.CastOptions(form, allow_time_truncate=True, allow_float_truncate=True)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's values; others as they are."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _atom(kind: pa.DataType) -> pa.DataType | None:
    return next((form for is_of, form in _ATOMS if is_of(kind)), None)


def _is_number(kind: pa.DataType) -> bool:
    return any(
        is_of(kind) for is_of in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )


def _of_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    both = (one, other)
    if any(map(pa.types.is_floating, both)):
        is_narrow = any(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in both)
        return pa.float32() if is_narrow else pa.float64()
    if all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in both):
        return pa.int64()
    digits = [_digits(kind) for kind in both]
    scale = max(scale for _, scale in digits)
    precision = max(whole for whole, _ in digits) + scale
    return (pa.decimal128 if precision <= _MOST_DIGITS else pa.decimal256)(precision, scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return how many digits a number has before and behind its point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (20 if kind == pa.uint64() else 19), 0


def _of_parts(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the form of two types with parts."""
    if _is_list(one) and _is_list(other):
        element = common_form(one.value_type, other.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_map(one) and pa.types.is_map(other):
        key = common_form(one.key_type, other.key_type)
        value = common_form(one.item_type, other.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _of_structs(one, other)
    return None


def _of_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if [field.name for field in one] != [field.name for field in other]:
        return None
    fields = []
    for field, its_other in zip(one, other, strict=True):
        form = common_form(field.type, its_other.type)
        if form is None:
            return None
        fields.append(pa.field(field.name, form))
    return pa.struct(fields)


def _is_list(kind: pa.DataType) -> bool:
    of_lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_of(kind) for is_of in of_lists)
