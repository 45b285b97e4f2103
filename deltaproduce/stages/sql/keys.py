"""The key of a SQL stage: the columns of its query that form it, and their directions."""

from collections.abc import Sequence

from deltaproduce.errors import DefinitionError
from deltaproduce.types.ddl import names_from_list


def key_columns(
    text: str, names: Sequence[str], *, stage: str, needs_values: bool = True
) -> dict[str, bool]:
    """Read the names of the key columns.

    Args:
        text: names of columns, each perhaps with ``asc`` or ``desc``, such as ``total desc, id``.
        names: the columns of the query.
        stage: the name of the stage, for messages.
        needs_values: whether columns must be left for the value.

    Returns:
        The names, in the query's spelling, and whether each sorts descending; in order.

    Raises:
        DefinitionError: the text is not such a list, or names no column of the query; with `stage`
            and, if one column is at fault, `column`.
    """
    listed = names_from_list(text)
    if listed is None:
        raise _no_list(text, stage)
    spelled = {name.lower(): name for name in names}
    directions: dict[str, bool] = {}
    for name, descending in listed:
        if name.lower() not in spelled:
            known = ", ".join(names)
            message = f"stage {stage!r}: key column {name!r} is not in its query; it has {known}"
            raise DefinitionError(message, stage=stage, column=name)
        if spelled[name.lower()] in directions:
            message = f"stage {stage!r}: key column {name!r} is named twice; name it once"
            raise DefinitionError(message, stage=stage, column=name)
        directions[spelled[name.lower()]] = bool(descending)
    if needs_values and len(directions) == len(names):
        message = (
            f"stage {stage!r}: all columns of its query are in its key {text!r}; a stage needs a "
            "value too, so select another column"
        )
        raise DefinitionError(message, stage=stage)
    return directions


def _no_list(text: str, stage: str) -> DefinitionError:
    message = f"stage {stage!r}: its key is {text!r}; name columns of its query, as 'a, b desc'"
    return DefinitionError(message, stage=stage)
