"""One stage alone: the rows that it makes of given rows, compared with those that a test expects.

The stages that it reads are sources with the columns that they have in the pipeline, so nothing
above it runs. The invariant: the stage is made by a store, as everywhere else, and what is compared
are its rows as a multiset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import taken
from deltaproduce.errors import DefinitionError, InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.checks.expecting import Home
from deltaproduce.model.graph import Graph, Producer, Source, Stage, read_by
from deltaproduce.pipeline import Pipeline
from deltaproduce.reading.opened import opened_by
from deltaproduce.stages.sources.given.formats import table_of
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.store import Store
from deltaproduce.sync.comparing.matching import close_pairs, hashes, surpluses
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import Column, Columns, RowSchema, with_nulls
from deltaproduce.types.excerpts import meant, shown
from deltaproduce.types.python_values import python_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RowsAsDicts: TypeAlias = Sequence[Mapping[str, Any]]
"""Rows as dicts by column; a column that a row does not name is null."""

_TOLERANCE: Final = 1e-9
"""Floats are equal if they differ by at most so much of the larger one, as in `compare`."""
_SHOWN: Final = 20


def check_stage(
    pipeline: Pipeline,
    stage: str,
    given: Mapping[str, RowsAsDicts],
    expected: RowsAsDicts,
    *,
    as_of: date | str | None = None,
    time_zone: str = "UTC",
    spark: SparkSession | None = None,
) -> None:
    """Test one stage: compare the rows that it makes of given rows with those that you expect.

    The stages that it reads are not made. They have the given rows, in a store in a temporary
    folder. Rows are dicts of Python values; a column that a row does not name is null. Only the
    columns that a row of ``expected`` names are compared, all of them if there is no row. The order
    of rows does not matter, their number does. Null equals null. Floats are equal if they differ by
    at most a billionth of the larger one.

    Args:
        stage: the name of a stage that is made from others.
        given: the rows of each stage that it reads, in order; ``[]`` for none.
        expected: the rows that it must have.
        as_of: the date of the version, for a stage that reads it.
        time_zone: the time zone of the store.
        spark: a session, for a stage that needs one; None for none.

    Raises:
        AssertionError: it has other rows; the message shows those that are missing, and those that
            are too many.
        NotFoundError: there is no such stage.
        InvalidArgumentError: it reads a stage that ``given`` lacks, or does not read one that is
            there; or a row names a column that is not there.
        InvalidChangesError: a value does not fit its column; ``expected`` counts as a source.
        DeltaProduceError: as for `Store` and `Store.load`.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    graph = pipeline.graph()
    reads = tuple(one.name for one in read_by(graph.stage(stage)))
    _check(graph.stage(stage), reads, arguments.mapping(given, "given", "a dict of rows by stage"))
    _check_dicts(expected, "expected")
    with TemporaryDirectory(prefix="deltaproduce-") as folder:
        schemas = _schemas(graph, reads, f"{folder}/types", spark, time_zone)
        alone, sources = Pipeline(pipeline.name), dict[str, Stage]()
        for name, schema in schemas.items():
            sources[name] = alone.add(_source(name, schema))
        for one in (one for one in graph.producers if one.name == stage):
            alone.add(_copied(one, sources))
        rows = {
            name: _dicts(given[name], (*schema.key, *schema.value), f"given[{name!r}]")
            for name, schema in schemas.items()
        }
        with Store(spark, f"{folder}/store", alone, time_zone=time_zone) as store:
            store.load(rows, "given", as_of=... if as_of is None else as_of)
            if not any(rows.values()):  # a first version of no rows reaches no stage
                store.refresh(stage)
            content = store.content(stage)
            schema = opened_by(store).stage(stage).schema
            actual = content if isinstance(content, pa.Table) else content.toArrow()
    compared = _compared_columns(schema, expected)
    wanted = _table(_dicts(expected, compared.key, "expected"), compared, time_zone)
    _compare(stage, wanted, _table(actual.select(compared.key.names), compared, time_zone))


def _check(stage: Stage, reads: Sequence[str], given: Mapping[str, object]) -> None:
    """Refuse a stage that is not made of rows alone, and rows of other stages than it reads.

    Raises:
        InvalidArgumentError: it is refused.
    """
    name, kind = stage.name, stage.kind
    if not reads:
        raise InvalidArgumentError(
            f"stage {name!r} is a source: its rows are given; name a stage that reads it",
            argument="stage",
        )
    if kind.tasks.make_rows or kind.upkeep.reads_states:
        what = "tasks make it" if kind.tasks.make_rows else "it reads states of another aggregate"
        raise InvalidArgumentError(
            f"stage {name!r} is not made of rows alone: {what}; test it in a store",
            argument="stage",
        )
    names = ", ".join(map(repr, reads))
    for other in (other for other in given if other not in reads):
        raise InvalidArgumentError(
            f"given has rows of {shown(other)}, and stage {name!r} reads {names}; "
            f"{meant(other, reads)}",
            argument="given",
        )
    for feeder in reads:
        if feeder not in given:
            raise InvalidArgumentError(
                f"stage {name!r} reads {names}, and given has no rows of {feeder!r}; "
                "give [] for a stage without rows",
                argument="given",
            )
        _check_dicts(given[feeder], f"given[{feeder!r}]")


def _check_dicts(rows: object, argument: str) -> None:
    """Refuse what is no list of dicts.

    Raises:
        InvalidArgumentError: it is none.
    """
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidArgumentError(
            f"{argument} is {shown(rows)}; give a list of dicts, one a row", argument=argument
        )


def _schemas(
    graph: Graph, names: Sequence[str], place: str, spark: SparkSession | None, time_zone: str
) -> dict[str, RowSchema]:
    """Return the columns of the stages that are read; a store finds types that are not known.

    Raises:
        DefinitionError: the type of a column cannot be known.
    """
    schemas = {name: graph.stage(name).schema for name in names}
    if not all(map(_is_known, schemas.values())):
        above, copies, needed = Pipeline("types"), dict[str, Stage](), graph.upstream_of(names)
        for source in (one for one in graph.sources if one.name in needed):
            copies[source.name] = above.add(_source(source.name, source.schema))
        for producer in (one for one in graph.producers if one.name in needed):
            copies[producer.name] = above.add(_copied(producer, copies))
        with Store(spark, place, above, time_zone=time_zone) as store:
            schemas = {name: opened_by(store).stage(name).schema for name in names}
    for name, schema in schemas.items():
        if not _is_known(schema):
            raise DefinitionError(
                f"the types of the columns of stage {name!r} are not known: say them where it is "
                "defined",
                stage=name,
            )
    return schemas


def _is_known(schema: RowSchema) -> bool:
    return all(column.is_known for column in (*schema.key, *schema.value))


def _source(name: str, schema: RowSchema) -> Source:
    """Return a source in place of a stage; all of its columns may be null."""
    key, value = (
        Columns(
            tuple(
                replace(column, nullable=True, data_type=with_nulls(column.data_type))
                for column in columns
            )
        )
        for columns in (schema.key, schema.value)
    )
    return Source(name, RowSchema(key, value), Given())


def _copied(stage: Producer, stages: Mapping[str, Stage]) -> Producer:
    """Return a stage that reads others of the same names, for another pipeline."""
    return replace(stage.fed_by(_feeders(stage, stages)), home=Home())


def _feeders(stage: Stage, stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Return the feeders of a copy: stages of the same names, or hidden ones that read these."""
    return {
        one.name: stages.get(one.name) or one.fed_by(_feeders(one, stages)) for one in stage.feeders
    }


def _dicts(rows: RowsAsDicts, columns: Iterable[Column], argument: str) -> list[dict[str, Any]]:
    """Return rows with all columns; case does not matter.

    Raises:
        InvalidArgumentError: a row names a column that is not there.
    """
    spelled = {column.name.lower(): column.name for column in columns}
    nothing = dict.fromkeys(spelled.values())
    return [
        nothing | {_spelled(name, spelled, argument): value for name, value in row.items()}
        for row in rows
    ]


def _spelled(name: str, spelled: Mapping[str, str], argument: str) -> str:
    """Return a column as its stage names it."""
    if str(name).lower() not in spelled:
        raise InvalidArgumentError(
            f"{argument} names column {shown(name)}, which is not there; "
            f"{meant(name, spelled.values())}",
            argument=argument,
        )
    return spelled[name.lower()]


def _compared_columns(schema: RowSchema, expected: RowsAsDicts) -> RowSchema:
    """Return the columns that expected rows name; all that readers see if there are no rows."""
    every = [column for column in (*schema.key, *schema.value) if not column.is_hidden]
    spelled = {column.name.lower(): column.name for column in every}
    named = {_spelled(name, spelled, "expected") for row in expected for name in row}
    if expected and not named:
        raise InvalidArgumentError(
            "expected has rows that name no column; name those that are compared",
            argument="expected",
        )
    chosen = [one for one in every if not expected or one.name in named]
    return _source("expected", RowSchema(Columns(tuple(chosen)), Columns(()))).schema


def _table(rows: object, schema: RowSchema, time_zone: str) -> pa.Table:
    """Return rows in the types of columns.

    Raises:
        InvalidChangesError: they do not fit.
    """
    source = Source("expected", schema, Given())
    return table_of(rows, source, zone_of(time_zone), is_snapshot=True).combine_chunks()


def _compare(stage: str, expected: pa.Table, actual: pa.Table) -> None:
    """Compare rows as multisets.

    Raises:
        AssertionError: they differ.
    """
    __tracebackhide__ = True
    missing, surplus = _differing(expected, actual)
    if not len(missing) and not len(surplus):
        return
    lines = [
        f"stage {stage!r} has other rows than expected: {len(missing)} of {len(expected)} are "
        f"missing, and {len(surplus)} of {len(actual)} are too many",
        *_lines("missing: ", missing),
        *_lines("too many:", surplus),
    ]
    raise AssertionError("\n".join(lines))


def _differing(one: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of each side that have no equal on the other."""
    sides = one, other
    of_rows = [hashes(side, _TOLERANCE) for side in sides]
    rest = [
        side.filter(pa.array(surplus.take(own))).combine_chunks()
        for side, own, surplus in zip(sides, of_rows, surpluses(*of_rows), strict=True)
    ]
    pairs = close_pairs(rest[0], rest[1], _TOLERANCE)
    first, second = (
        taken(side, np.setdiff1d(np.arange(len(side)), places))
        for side, places in zip(rest, pairs, strict=True)
    )
    return first, second


def _lines(label: str, rows: pa.Table) -> Iterator[str]:
    for row in python_rows(rows.slice(0, _SHOWN)):
        yield f"  {label} {shown(row)}"
    if len(rows) > _SHOWN:
        yield f"  {label} and {len(rows) - _SHOWN} more"
