"""Definitions of events as queries: what a stage of events is, in SQL.

For people who read a definition; the rows are made by `states`. A law compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltaproduce.stages.rekeyed.events.columns import EventColumns
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.types.data_types import StringType
from deltaproduce.types.ddl import identifier


def latest(columns: EventColumns, feeders: Sequence[str]) -> str:
    """Return the query of the last state of each key."""
    by_key = ", ".join(one.text for _, one in columns.key)
    in_order = _descending([*(one for _, one in columns.sequence), *_every(columns)])
    return "\n".join(
        [
            _select(_aliased([*columns.key, *columns.values])),
            f"FROM {', '.join(feeders)}",
            f"QUALIFY row_number() OVER (PARTITION BY {by_key} ORDER BY {in_order}) = 1"
            + ("" if columns.deleted is None else f"\n  AND NOT {_is_deleted(columns)}"),
        ]
    )


def history(columns: EventColumns, track: Sequence[str], feeders: Sequence[str]) -> str:
    """Return the query of all states of each key, adjacent ones that are equal joined."""
    key = [identifier(name) for name, _ in columns.key]
    values = [identifier(name) for name, _ in columns.values]
    point = [one.text for _, one in columns.sequence]
    by_key = ", ".join(one.text for _, one in columns.key)
    named = ", ".join(
        f"{literal(Constant(StringType(), name))}, {one.text}" for name, one in columns.sequence
    )
    at = point[0] if len(point) == 1 else f"named_struct({named})"
    same = " AND ".join(
        [
            "NOT lag(is_deleted) OVER by_key",
            *(f"lag({identifier(name)}) OVER by_key <=> {identifier(name)}" for name in track),
        ]
    )
    of_key = ", ".join(key)
    return "\n".join(
        [
            "WITH states AS (",
            _select(
                [
                    *_aliased([*columns.key, *columns.values]),
                    f"{at} AS sequence_at",
                    f"{_is_deleted(columns)} AS is_deleted",
                ]
            ),
            f"FROM {', '.join(feeders)}",
            f"QUALIFY row_number() OVER (PARTITION BY {by_key}, {', '.join(point)} "
            f"ORDER BY {_descending(_every(columns))}) = 1",
            "), marked AS (",
            "SELECT *, lead(sequence_at) OVER by_key AS next_at,",
            f"  NOT coalesce({same}, false) AS begins",
            "FROM states",
            f"WINDOW by_key AS (PARTITION BY {of_key} ORDER BY sequence_at)",
            "), spans AS (",
            f"SELECT *, count_if(begins) OVER (PARTITION BY {of_key} ORDER BY sequence_at) AS span",
            "FROM marked WHERE NOT is_deleted",
            ")",
            _select(
                [
                    *key,
                    *(f"max_by({name}, sequence_at) AS {name}" for name in values),
                    "min(sequence_at) AS valid_from",
                    "max_by(next_at, sequence_at) AS valid_to",
                ]
            ),
            f"FROM spans GROUP BY {of_key}, span",
        ]
    )


def _every(columns: EventColumns) -> list[Expression]:
    return [Expression.of_column(name) for name in columns.of_event]


def _descending(expressions: Iterable[Expression]) -> str:
    return ", ".join(f"{text} DESC" for text in dict.fromkeys(one.text for one in expressions))


def _is_deleted(columns: EventColumns) -> str:
    return "false" if columns.deleted is None else f"coalesce({columns.deleted.text}, false)"


def _aliased(named: Iterable[tuple[str, Expression]]) -> list[str]:
    return [
        one.text if one.column == name else f"{one.text} AS {identifier(name)}"
        for name, one in named
    ]


def _select(columns: Sequence[str]) -> str:
    return "SELECT\n" + ",\n".join(f"  {one}" for one in columns)
