"""Random pipelines: sources, and stages of a catalogue, aggregates, indexes, events in chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from deltaproduce.model.graph import Stage
from deltaproduce.pipeline import Merged, Pipeline, merge
from deltaproduce.testing.strategies.aggregates import aggregates
from deltaproduce.testing.strategies.catalogue import COLUMNS, Catalogue, Rule, Shape
from deltaproduce.testing.strategies.functions import counted, gathered, last_first, matched
from deltaproduce.testing.strategies.names import column_names, stage_name
from deltaproduce.testing.strategies.quarantine import set_aside
from deltaproduce.testing.strategies.rekeyed import (
    events,
    indexes,
    may_be_events,
    may_have_index,
)
from deltaproduce.testing.strategies.stored import stored_otherwise


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A stage of the pipeline.

    Attributes:
        shape: its columns, if they are in the catalogue.
        adds_up: its values that `agg.merge` takes.
    """

    stage: Stage
    shape: Shape | None
    adds_up: tuple[str, ...] = ()

    def has_key_of(self, other: _Drawn) -> bool:
        """Return whether both have the same key of the catalogue."""
        if self.shape is None or other.shape is None:
            return False
        return self.shape.key == other.shape.key


@st.composite
def pipelines(
    draw: st.DrawFn,
    *,
    max_producers: int = 4,
    remembering: bool = True,
    strict: bool = False,
    rejecting: bool = False,
) -> Pipeline:
    """A small pipeline: one or two sources, and stages of a catalogue in chains and fan-out.

    Stages with several feeders, merged or joined, come where two have the same keys: of different
    sources, or a stage and its own feeder, or two stages of one ancestor. Aggregates come over any
    stage, with windows where its key has partitions, and so do indexes, and latest rows and
    histories of stages whose columns have an order.
    In half of the pipelines stages may say how files keep their content, and in half of them
    columns have odd names.

    The stages' functions are deterministic, sensitive to the order of their values, and at the
    top level of a module, so that Spark's workers can unpickle them.

    Args:
        draw: given by Hypothesis.
        max_producers: the greatest number of producers; the least is one.
        remembering: with stages that number their keys, or keep what a key was first given, and
            with windows, so that their rows depend on the versions before.
        strict: with windows that refuse that partitions are missing, and so updates.
        rejecting: with sources that set rows aside, in stages that others may read.
    """
    catalogue = Catalogue(draw(column_names(COLUMNS)), remembering)
    pipeline = Pipeline("random")
    stages: list[_Drawn] = []
    shapes = [*(rule.feeder for rule in catalogue.rules), *catalogue.partitioned * 6]
    for number in range(1, draw(st.integers(1, 2)) + 1):
        shape = draw(st.sampled_from(shapes))
        name = _name(draw, pipeline, f"source_{number}")
        source = pipeline.source(name, key=shape.key, value=shape.value)
        stages.append(_Drawn(source, shape))
        if rejecting and draw(st.booleans()):
            name = _name(draw, pipeline, f"rejected_{number}")
            stages.append(_Drawn(draw(set_aside(pipeline, source, name)), None))
    for number in range(1, draw(st.integers(1, max_producers)) + 1):
        feeder = stages[draw(st.integers(0, len(stages) - 1))]
        others = [one for one in stages if one is not feeder and one.has_key_of(feeder)]
        beside = others if draw(st.booleans()) else []
        if may_have_index(feeder.stage) and not draw(st.integers(0, 5)):
            drawn = draw(indexes(feeder.stage, catalogue, number))
            name = _name(draw, pipeline, f"index_{number}")
            stages.append(
                _Drawn(pipeline.index(name, feeder.stage, **drawn.arguments), drawn.shape)
            )
        elif may_be_events(feeder.stage) and not draw(st.integers(0, 5)):
            stages.append(_of_events(draw, pipeline, catalogue, feeder, number))
        elif feeder.shape is None or draw(
            st.sampled_from(_SHARES[feeder.shape in catalogue.partitioned])
        ):
            options = {"windowed": remembering, "strict": strict}
            stages.append(_aggregate(draw, pipeline, catalogue, feeder, beside, number, **options))
        else:
            stages.append(_function(draw, pipeline, catalogue, feeder, beside, number))
    return draw(stored_otherwise(pipeline)) if draw(st.booleans()) else pipeline


_SHARES = {True: [True, True, False], False: [True, False, False]}
"""The chance of an aggregate, for feeders with and without partitions."""


def _name(draw: st.DrawFn, pipeline: Pipeline, plain: str) -> str:
    """Draw the name of the next stage."""
    return draw(stage_name(plain, [stage.name for stage in pipeline.stages]))


def _aggregate(
    draw: st.DrawFn,
    pipeline: Pipeline,
    catalogue: Catalogue,
    feeder: _Drawn,
    others: Sequence[_Drawn],
    number: int,
    **options: bool,
) -> _Drawn:
    """Draw an aggregate of a stage, and of others that have the same columns."""
    alike = [one.stage for one in others if one.shape == feeder.shape]
    adds_up = () if alike else feeder.adds_up
    drawn = draw(aggregates(feeder.stage, catalogue, adds_up, number, **options))
    inputs = merge(feeder.stage, *alike) if alike else feeder.stage
    name = _name(draw, pipeline, f"aggregate_{number}")
    stage = pipeline.aggregate(name, inputs, **drawn.arguments)
    return _Drawn(stage, drawn.shape, drawn.adds_up)


def _of_events(
    draw: st.DrawFn, pipeline: Pipeline, catalogue: Catalogue, feeder: _Drawn, number: int
) -> _Drawn:
    """Draw the latest rows of a stage of events, or their history."""
    drawn = draw(events(feeder.stage, catalogue, number))
    define = pipeline.history if drawn.has_history else pipeline.latest
    name = _name(draw, pipeline, f"{define.__name__}_{number}")
    return _Drawn(define(name, feeder.stage, **drawn.arguments), drawn.shape)


def _function(
    draw: st.DrawFn,
    pipeline: Pipeline,
    catalogue: Catalogue,
    feeder: _Drawn,
    others: Sequence[_Drawn],
    number: int,
) -> _Drawn:
    """Draw a stage of the catalogue, over one feeder or several."""
    inputs: list[Stage | Merged] = [feeder.stage]
    if others:
        inputs, rules = _several(draw, catalogue, feeder, others)
    else:
        rules = [rule for rule in catalogue.rules if rule.feeder == feeder.shape]
    rule = draw(st.sampled_from(rules))
    name = _name(draw, pipeline, f"{rule.function.__name__}_{number}")
    declared: dict[str, Any] = {"key": rule.shape.key, "value": rule.shape.value, "name": name}
    if rule.called == "by key":
        stage = pipeline.producer(*inputs, **declared, **rule.kept)(rule.function)
    else:
        streaming = rule.called == "with streams"
        stage = pipeline.arrow_producer(*inputs, **declared, streaming=streaming)(rule.function)
    return _Drawn(stage, rule.shape)


def _several(
    draw: st.DrawFn, catalogue: Catalogue, first: _Drawn, others: Sequence[_Drawn]
) -> tuple[list[Stage | Merged], list[Rule]]:
    """Draw several feeders with the same keys: merged if their values allow it, joined, or both."""
    shape, chosen = first.shape, draw(st.permutations(others))[: draw(st.integers(1, 2))]
    assert shape is not None  # a function reads columns of the catalogue
    alike = [one.stage for one in chosen if one.shape == shape]
    ways = ["joined", "merged", "both"] if len(chosen) > 1 else ["joined", "merged"]
    way = draw(st.sampled_from(ways)) if alike else "joined"
    if way == "merged":
        return [merge(first.stage, *alike)], [
            rule for rule in catalogue.rules if rule.feeder == shape
        ]
    rules = [Rule(function, shape, shape) for function in (matched, gathered, counted, last_first)]
    merged = alike[:1] if way == "both" else []
    read = merge(first.stage, *merged) if merged else first.stage
    return [read, *(one.stage for one in chosen if one.stage not in merged)], rules
