"""Declarations: the checks of a pipeline's names, functions, columns and feeders.

Each check raises a `DefinitionError` with the stage, and says what to do. The invariant: a name
that passes can be a path or a table's name, a function can be called, and feeders can be read
together.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from deltaproduce.errors import DefinitionError
from deltaproduce.model.arguments import text_fault
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.model.retention import outreaches
from deltaproduce.model.windows import Window
from deltaproduce.types.columns import Columns, RowSchema


def check_text(value: object, what: str, *, stage: str | None = None) -> None:
    """Check that a value is non-empty text.

    Args:
        what: the value's name, for the message.

    Raises:
        DefinitionError: it is not; with `stage`.
    """
    if fault := text_fault(value):
        whose = "" if stage is None else f"stage {stage!r}: "
        raise DefinitionError(f"{whose}{what} is {value!r}; give {fault}", stage=stage)


def function_name(function: object) -> str:
    """Return the name that a function gives to its stage.

    Raises:
        DefinitionError: it has none.
    """
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise DefinitionError(f"{function!r} has no name to give to its stage; pass name=")
    return name


def check_function(function: object, what: str, parameters: Sequence[str], *, stage: str) -> None:
    """Check that a function can be called with these parameters.

    Args:
        what: the function's name, for the message.

    Raises:
        DefinitionError: it cannot; with `stage`.
    """
    if not callable(function):
        message = f"stage {stage!r}: {what} is {function!r}; give a function"
        raise DefinitionError(message, stage=stage)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in functions do not tell their signature
    try:
        signature.bind(*parameters)
    except TypeError as error:
        message = (
            f"stage {stage!r}: the parameters of {what} are {str(signature)!r}, but it is called "
            f"with ({', '.join(parameters)}): {error}"
        )
        raise DefinitionError(message, stage=stage) from None


def check_preserved(
    schema: RowSchema, surrogate: str | None, preserve: object, *, stage: str
) -> None:
    """Check that a surrogate is an integer value column, and that `preserve` is not given with it.

    Raises:
        DefinitionError: with `stage` and `column`.
    """
    if surrogate is not None:
        column = next((c for c in schema.value if c.name == surrogate), None)
        if column is None:
            message = (
                f"stage {stage!r}: its surrogate {surrogate!r} is not a value column; the value is "
                f"{schema.value.label!r}"
            )
            raise DefinitionError(message, stage=stage, column=surrogate)
        if column.data_type.simpleString() not in {"bigint", "int"}:
            message = (
                f"stage {stage!r}: its surrogate is declared {column.ddl!r}; use bigint or int"
            )
            raise DefinitionError(message, stage=stage, column=surrogate)
        if preserve is not None:
            message = f"stage {stage!r} has both surrogate= and preserve=; use one of them"
            raise DefinitionError(message, stage=stage)
    if preserve is not None:
        check_function(preserve, "preserve", ("value", "example"), stage=stage)


def check_stage(stage: Stage) -> None:
    """Check what a stage reads, and what its kind requires.

    Raises:
        DefinitionError: with `stage`.
    """
    if isinstance(stage, Producer):
        if not stage.kind.tasks.make_rows:
            by_key = stage.kind.upkeep.by_key
            check_inputs(stage.inputs, stage=stage.owner, by_key=by_key)
        _check_forgotten(stage)
        if stage.revision is not None:
            check_text(stage.revision, "its revision", stage=stage.owner)
    stage.kind.check(stage.schema, len(stage.inputs), stage=stage.owner)


def _check_forgotten(stage: Producer) -> None:
    """Refuse a stage that may need rows again that a source has forgotten.

    Raises:
        DefinitionError: with `stage`.
    """
    for feeder in stage.merged:
        kept, window = feeder.kind.intake.retention, stage.kind.upkeep.window
        if kept is None or not kept.forgets:
            continue
        fault, place = None, feeder.schema.key.names.index(kept.window.column)
        column = stage.feeders[0].schema.key.names[place]
        if stage.kind.reads_again(len(stage.merged), column):
            fault = (
                "makes a key again from rows that have not changed; let it read that alone, and "
                f"an aggregate have {column!r} in its key"
            )
        elif window is not None and _outreaches(window, kept.window, stage, feeder):
            fault = "has a window that reaches further back; make it shorter, or retain more"
        if fault:
            message = (
                f"stage {stage.owner!r} reads source {feeder.name!r}, which forgets rows, and "
                f"{fault}, or use expire='delete'"
            )
            raise DefinitionError(message, stage=stage.owner)


def _outreaches(window: Window, kept: Window, stage: Producer, feeder: Stage) -> bool:
    """See `outreaches`; the window names its column as the first feeder does."""
    place, key = stage.feeders[0].schema.key.names.index(window.column), feeder.schema.key
    own = replace(window, column=key.names[place])
    return outreaches(own, kept, key, stage=stage.owner)


def check_inputs(inputs: tuple[tuple[Stage, ...], ...], *, stage: str, by_key: bool = True) -> None:
    """Check that feeders have equal key types, and merged feeders equal value types.

    The types of queries' columns count when they are known.

    Args:
        by_key: whether they are read by equal keys; if not, their types may differ.

    Raises:
        DefinitionError: they differ, or there are no feeders, or one is given twice; with `stage`.
    """
    if not inputs or not all(inputs):
        message = f"stage {stage!r} has no feeder; give the source or stage that it reads"
        raise DefinitionError(message, stage=stage)
    feeders = tuple(chain.from_iterable(inputs))
    first = feeders[0]
    for position, feeder in enumerate(feeders):
        if any(feeder is earlier for earlier in feeders[:position]):
            message = f"stage {stage!r} reads {feeder.name!r} twice; name each feeder once"
            raise DefinitionError(message, stage=stage)
        if by_key and _differ(feeder.schema.key, first.schema.key):
            message = (
                f"stage {stage!r}: its feeders differ in their keys, {first.name!r} has "
                f"{first.schema.key.label!r} and {feeder.name!r} {feeder.schema.key.label!r}; use "
                "the same types and directions in the same order"
            )
            raise DefinitionError(message, stage=stage)
    for merged in inputs:
        for feeder in merged:
            unknown = any(
                one.kind.intake.all_columns and not one.schema.value.columns for one in merged
            )
            if not unknown and _differ(feeder.schema.value, merged[0].schema.value):
                message = (
                    f"stage {stage!r}: feeders that it merges differ in their values, "
                    f"{merged[0].name!r} has {merged[0].schema.value.label!r} and {feeder.name!r} "
                    f"{feeder.schema.value.label!r}; use the same types in the same order, or read "
                    "them apart, as a join"
                )
                raise DefinitionError(message, stage=stage)


def _differ(columns: Columns, others: Columns) -> bool:
    """Return whether columns differ in type or direction, by position."""
    if len(columns) != len(others):
        return True
    return any(
        (one.is_known and other.is_known and one.data_type != other.data_type)
        or one.descending != other.descending
        for one, other in zip(columns, others, strict=True)
    )
