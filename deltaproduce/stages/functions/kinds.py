"""Stages that are a function: called for each key, or for tables of many keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final, TypeAlias

from typing_extensions import override

from deltaproduce.engines.calls import expect_calls
from deltaproduce.engines.choice import Engines, is_empty
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import BatchFunction
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import ProducerError
from deltaproduce.model.declarations import check_function, check_preserved
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition, KeyUse, Upkeep
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.functions import by_key, over_tables
from deltaproduce.stages.functions.preservation import PreserveFunction, preserved
from deltaproduce.stages.inputs import StageInput, all_rows, changed_rows, input_columns
from deltaproduce.stages.productions import Production
from deltaproduce.stages.source_keys import ProducerKind
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import IntegerType

_GREATEST_INT: Final = 2**31 - 1

ProduceFunction: TypeAlias = Callable[..., Iterable[Any]]

ArrowFunction: TypeAlias = Callable[[Any], Any]
"""From a pyarrow Table to one, or from an iterator of RecordBatches to one of Tables or batches."""


class FunctionKind(ProducerKind):
    """A stage that is a function, run in worker processes: Spark's, or the driver's own."""

    __slots__ = ()

    @abstractmethod
    def calls(self, stage: Stage, zone: tzinfo) -> BatchFunction:
        """Return a worker's function, from batches of whole keys to batches of emissions.

        Args:
            stage: the stage; only the schemas of its feeders are pickled with it.
            zone: the clock on which the function sees timestamps.
        """

    @override
    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        stage = production.stage
        if keys is not None:
            rows: Rows | None = changed_rows(stage, inputs, keys)
        else:
            rows = all_rows(stage, inputs, production.engines)
        if rows is None:
            return None
        if is_empty(rows):
            return empty(production.content), 0
        columns, key = input_columns(stage), stage.feeders[0].schema.key.columns
        engines = production.engines
        zone = engines.time_zone
        run = engines.once(
            ("calls", stage.name, zone),
            lambda: self.calls(stage, zone_of(zone)),
            is_anew=keys is None,  # then what it refers to may have changed
        )
        beside = production.beside(rows, key, run)
        if beside is not None:
            return beside
        ordered = engines.distributed.in_tasks(rows, columns, key)
        return production.computed(by_key.produced(ordered, stage, run))


@dataclass(frozen=True, slots=True, repr=False)
class ByKey(FunctionKind):
    """A stage whose function is called for each key, with the key and its values.

    Attributes:
        surrogate: the value column that the library fills with the target key's number.
        preserve: computes the stored value from an emitted one and a previous one of the key.
    """

    function: ProduceFunction
    surrogate: str | None = None
    preserve: PreserveFunction | None = None

    @property
    @override
    def word(self) -> str:
        return "rows"

    @property
    @override
    def definition(self) -> Definition:
        """The function, and the processing of its emissions."""
        if self.preserve is None:
            return Definition(self.function, (self.function,))
        functions = (self.function, self.preserve)
        return Definition(functions, functions)

    @property
    @override
    def key_use(self) -> KeyUse:
        return KeyUse(numbered=self.surrogate)

    @property
    @override
    def upkeep(self) -> Upkeep:
        """A value may depend on the one before."""
        return Upkeep(by_history=self.preserve is not None)

    @override
    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:
        parameters = ("key", *["values"] * inputs)
        check_function(self.function, "its function", parameters, stage=stage)
        check_preserved(schema, self.surrogate, self.preserve, stage=stage)

    @override
    def expect_calls(self, engines: Engines) -> None:
        expect_calls(engines, by_key.__name__)

    @override
    def calls(self, stage: Stage, zone: tzinfo) -> BatchFunction:
        return by_key.calls(stage, self.function, zone)

    @override
    def stored(
        self, production: Production, before: Rows | None, emitted: Rows, count: int
    ) -> tuple[Rows, int]:
        """With a surrogate number, or as `preserve` returns it (S12)."""
        if self.surrogate is None and self.preserve is None:
            return emitted, production.surrogates
        stage, engines, content = production.stage, production.engines, production.content
        known = before if before is not None and production.is_numbered else empty(content)
        if self.preserve is not None:
            values = preserved(production, known, emitted, count, self.preserve)
            return values, production.surrogates
        assert self.surrogate is not None
        engine, layout = engines.of(known, emitted), Layout.of(stage)
        values, last = engine.give_numbers(
            known, emitted, layout, self.surrogate, production.surrogates
        )
        _check_number(last, stage, self.surrogate)
        return values, last


@dataclass(frozen=True, slots=True, repr=False)
class OverTables(FunctionKind):
    """A stage whose function is called with Arrow tables of many whole keys.

    Attributes:
        streaming: whether it is called per key, with an iterator over batches of its rows.
    """

    function: ArrowFunction
    streaming: bool = False

    @property
    @override
    def word(self) -> str:
        return "arrow_stream" if self.streaming else "arrow"

    @property
    @override
    def definition(self) -> Definition:
        return Definition(self.function, (self.function,))

    @override
    def check(self, schema: RowSchema, inputs: int, *, stage: str) -> None:
        del schema, inputs
        parameters = ("batches",) if self.streaming else ("table",)
        check_function(self.function, "its function", parameters, stage=stage)

    @override
    def expect_calls(self, engines: Engines) -> None:
        expect_calls(engines, over_tables.__name__)

    @override
    def calls(self, stage: Stage, zone: tzinfo) -> BatchFunction:
        names = by_key.output_struct(stage).names
        return over_tables.calls(stage, self.function, zone, names, streaming=self.streaming)


def _check_number(last: int, stage: Stage, surrogate: str) -> None:
    """Refuse a surrogate number that its column does not hold.

    Raises:
        ProducerError: with `stage` and `column`.
    """
    column = next(column for column in stage.schema.value if column.name == surrogate)
    if isinstance(column.data_type, IntegerType) and last > _GREATEST_INT:
        raise ProducerError(
            f"stage {stage.name!r}: the number {last:,} of a new key is not an int, as surrogate "
            f"{surrogate!r} is declared; declare it bigint",
            stage=stage.name,
            column=surrogate,
        )
