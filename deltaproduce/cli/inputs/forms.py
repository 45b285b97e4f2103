"""How an input's values are written, from what the project file says about it."""

from __future__ import annotations

import codecs
from datetime import tzinfo
from typing import NoReturn

from deltaproduce.cli.inputs.reading.reader import Reader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.cli.inputs.reading.time_forms import DATES, TIMES, TimeForm, form_of
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Source
from deltaproduce.projects.file import Input
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.times.zones import zone_of
from deltaproduce.types.excerpts import shown


def reader(found: Input, source: Source, zone: str) -> Reader:
    """Return the reader of an input's files.

    Args:
        zone: the store's, for timestamps without one if the input names none.

    Raises:
        ProjectFileError: a form, an encoding, a time zone or an optional column is unknown.
    """
    try:
        if not codecs.lookup(found.encoding)._is_text_encoding:
            raise LookupError
    except LookupError:
        _refuse(found, "encoding", found.encoding, 'one that Python knows, such as "latin-1"')
    values = {column.name.lower() for column in source.schema.value if column.nullable}
    for name in found.optional:
        if name.lower() not in values:
            wanted = "columns of the source that take nulls and are no key"
            _refuse(found, "optional", name, wanted)
    forms = Forms(
        zone=_zone(found, zone),
        decimal=found.decimal,
        dates=_form(found, "date_format", found.date_format, DATES),
        times=_form(found, "timestamp_format", found.timestamp_format, TIMES),
    )
    return Reader(found, source, forms)


def _zone(found: Input, zone: str) -> tzinfo:
    try:
        return zone_of(found.timezone or zone)
    except DefinitionError:
        if found.timezone is None:
            raise
        _refuse(found, "timezone", found.timezone, 'a region or an offset, such as "Europe/Paris"')


def _form(found: Input, key: str, text: str | None, default: TimeForm) -> TimeForm:
    if text is None:
        return default
    try:
        return form_of(text, of_times=default is TIMES)
    except ValueError as error:
        _refuse(found, key, text, f'the codes of strptime, such as "%d.%m.%Y": {error}')


def _refuse(found: Input, key: str, value: str, wanted: str) -> NoReturn:
    raise ProjectFileError(
        f"deltaproduce.toml: [sources.{found.source}] {key} is {shown(value)}; give {wanted}"
    )
