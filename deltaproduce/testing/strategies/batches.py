"""Input of sources: batches of changes, snapshots, and histories of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from deltaproduce.model.graph import Source
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.oracle import Change, Delete, Upsert, plain
from deltaproduce.testing.strategies.typed_values import Row, keys, values
from deltaproduce.testing.strategies.windows import partitioned
from deltaproduce.types.columns import RowSchema


@st.composite
def changes(
    draw: st.DrawFn,
    schema: RowSchema,
    key_pool: Sequence[Row],
    current: Mapping[Row, Sequence[Row]] | None = None,
) -> list[Change]:
    """A batch of changes of one source: one to eight keys, each either upserted or deleted.

    Keys have one to four rows, equal ones among them, and different keys' rows are interleaved.
    Stored keys may be sent again as they are, which changes nothing, or in another order. Deletes
    may come twice, and of unknown keys.

    Args:
        draw: given by Hypothesis.
        schema: the source's columns.
        key_pool: the keys to choose from.
        current: the source's values by key (in the normal form of `plain`) before the batch.
    """
    runs: list[list[Change]] = []
    chosen = st.lists(st.sampled_from(key_pool), min_size=1, max_size=8, unique_by=plain)
    for key in draw(chosen):
        stored = (current or {}).get(plain(key), ())
        match draw(st.sampled_from(["new", "new", "new", "delete", "same", "reordered"])):
            case "delete":
                runs.append([Delete(key)] * draw(st.integers(1, 2)))
            case "same" if stored:
                runs.append([Upsert(key, value) for value in stored])
            case "reordered" if stored:
                runs.append([Upsert(key, value) for value in draw(st.permutations(stored))])
            case _:
                drawn = draw(st.lists(values(schema.value), min_size=1, max_size=3))
                repeated = drawn[: draw(st.integers(0, 1))]
                runs.append([Upsert(key, value) for value in [*drawn, *repeated]])
    order = draw(st.permutations([number for number, run in enumerate(runs) for _ in run]))
    rests = [iter(run) for run in runs]
    return [next(rests[number]) for number in order]


@st.composite
def snapshots(
    draw: st.DrawFn,
    schema: RowSchema,
    key_pool: Sequence[Row],
    current: Mapping[Row, Sequence[Row]],
) -> list[Upsert]:
    """All rows of one source: the current ones, with some keys dropped, changed or added.

    Now and then that is nothing different, or no rows. Different keys' rows are not interleaved.

    Args:
        draw: given by Hypothesis.
        schema: the source's columns.
        key_pool: the keys to choose from.
        current: the source's values by key (in the normal form of `plain`).
    """
    contents = {key: list(values) for key, values in current.items()}
    if draw(st.booleans()):
        contents = _after(contents, draw(changes(schema, key_pool, current)))
    kept = (
        [key for key in contents if draw(st.integers(0, 9)) > 0]
        if draw(st.booleans())
        else [*contents]
    )
    order = draw(st.permutations(kept)) if draw(st.integers(0, 9)) else []
    return [Upsert(key, value) for key in order for value in contents[key]]


def key_pools(
    pipeline: Pipeline, *, min_size: int, max_size: int
) -> st.SearchStrategy[dict[str, list[Row]]]:
    """The keys that each source of a pipeline may have; near one another where windows are."""
    near = partitioned(pipeline)
    return st.fixed_dictionaries(
        {
            source.name: st.lists(
                keys(source.schema.key, near.get(source.name, ())),
                min_size=min_size,
                max_size=max_size,
            )
            for source in _given(pipeline)
        }
    )


@st.composite
def histories(
    draw: st.DrawFn, pipeline: Pipeline, *, min_versions: int = 1, max_versions: int = 5
) -> list[dict[str, list[Change]]]:
    """A history: batches of changes to a pipeline's sources, each drawn in view of those before.

    A batch that happens to change nothing makes no version, so a history of n batches gives at
    most n versions.

    Args:
        draw: given by Hypothesis.
        pipeline: the pipeline whose sources are changed.
        min_versions: the least number of batches.
        max_versions: the greatest number of batches.
    """
    sources = _given(pipeline)
    pools = draw(key_pools(pipeline, min_size=4, max_size=12))
    current: dict[str, dict[Row, list[Row]]] = {source.name: {} for source in sources}
    history: list[dict[str, list[Change]]] = []
    for _ in range(draw(st.integers(min_versions, max_versions))):
        batch: dict[str, list[Change]] = {}
        for source in draw(st.lists(st.sampled_from(sources), min_size=1, unique=True)):
            name = source.name
            batch[name] = draw(changes(source.schema, pools[name], current[name]))
            current[name] = _after(current[name], batch[name])
        history.append(batch)
    return history


def _given(pipeline: Pipeline) -> list[Source]:
    """Return the sources that rows are given for: others have the rows that these set aside."""
    return [one for one in pipeline.graph().sources if not one.kind.intake.rows_of]


def _after(current: Mapping[Row, Sequence[Row]], batch: Sequence[Change]) -> dict[Row, list[Row]]:
    """Return a source's values by key after a batch of changes."""
    replaced: dict[Row, list[Row]] = {plain(change.key): [] for change in batch}
    for change in batch:
        if isinstance(change, Upsert):
            replaced[plain(change.key)].append(change.value)
    after = {**current, **replaced}
    return {key: list(values_after) for key, values_after in after.items() if values_after}
