"""How an input's values are written, from what the project file says about it."""

from __future__ import annotations

import codecs
from datetime import tzinfo
from typing import NoReturn

from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.cli.inputs.reading.time_forms import DATES, TIMES, TimeForm, form_of
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Source
from deltaproduce.projects.file import Input
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.times.zones import zone_of
from deltaproduce.types.excerpts import shown


def reader(input_: Input, source: Source, zone: str) -> SourceReader:
    """Return the reader of an input's files.

    Args:
        zone: the store's, for timestamps without one if the input names none.

    Raises:
        ProjectFileError: a form, an encoding, a time zone or an optional column is unknown.
    """
    try:
        if not codecs.lookup(input_.encoding)._is_text_encoding:
            raise LookupError
    except LookupError:
        _refuse(input_, "encoding", input_.encoding, 'one that Python knows, such as "latin-1"')
    values = {column.name.lower() for column in source.schema.value if column.nullable}
    for name in input_.optional:
        if name.lower() not in values:
            wanted = "columns of the source that take nulls and are no key"
            _refuse(input_, "optional", name, wanted)
    forms = Forms(
        zone=_zone(input_, zone),
        decimal=input_.decimal,
        dates=_form(input_, "date_format", input_.date_format, DATES),
        times=_form(input_, "timestamp_format", input_.timestamp_format, TIMES),
    )
    return SourceReader(input_, source, forms)


def _zone(input_: Input, zone: str) -> tzinfo:
    try:
        return zone_of(input_.timezone or zone)
    except DefinitionError:
        if input_.timezone is None:
            raise
        _refuse(
            input_, "timezone", input_.timezone, 'a region or an offset, such as "Europe/Paris"'
        )


def _form(input_: Input, key: str, text: str | None, default: TimeForm) -> TimeForm:
    if text is None:
        return default
    try:
        return form_of(text, of_times=default is TIMES)
    except ValueError as error:
        _refuse(input_, key, text, f'the codes of strptime, such as "%d.%m.%Y": {error}')


def _refuse(input_: Input, key: str, value: str, wanted: str) -> NoReturn:
    raise ProjectFileError(
        f"deltaproduce.toml: [sources.{input_.source}] {key} is {shown(value)}; give {wanted}"
    )
