"""The project file `deltaproduce.toml`: the pipeline, its store, and where its rows are.

Pure, except that it reads this one file. The invariant: a `ProjectFile` is complete and correctly
typed; any error or unknown key in the file raises an error that names the file, the key and the
fix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from deltaproduce.projects.sections import ProjectFileError, Section
from deltaproduce.projects.variables import variables
from deltaproduce.times.zones import known

FILE_NAME: Final = "deltaproduce.toml"

Mode = Literal["snapshot", "changes"]
"""Whether files hold all rows of a source, or changes to it: `Store.load` or `Store.update`."""

FILE_FORMATS: Final = ("csv", "json", "parquet")
"""The formats that both engines read; ``json`` has one row per line."""

_MODES: Final = ("snapshot", "changes")
_ENGINES: Final = ("local", "spark")
_POLICIES: Final = ("auto", "incremental", "strict")
_TABLE_TYPES: Final = ("merge_on_read", "copy_on_write")


@dataclass(frozen=True, slots=True)
class Input:
    """The location of a source's rows.

    Attributes:
        source: its name in the pipeline.
        format: ``csv``, ``json``, ``parquet``, ``delta``, or with Spark any format that its reader
            knows.
        path: a file, a folder or a pattern, as written; relative to the project file's folder.
        mode: whether the files hold all rows or changes.
        delimiter: the separator of values in a CSV file.
        null: the unquoted text that means null in a CSV file.
        decimal: the character before the fraction of a number in a CSV file.
        encoding: the encoding of a CSV or JSON file, by its name in Python.
        date_format: how dates are written, in the codes of ``strptime``; in ISO 8601 if None.
        timestamp_format: how timestamps are written, likewise.
        timezone: the time zone of timestamps without one; the session's or machine's if None.
        options: options for Spark's reader.
        optional: the columns that its files may lack; they are null then.
        names: column -> its name in the files, where that is another one.
        allow_empty: whether a snapshot may have no rows, which deletes all that there are.
    """

    source: str
    format: str
    path: str
    mode: Mode
    delimiter: str = ","
    null: str = ""
    decimal: str = "."
    encoding: str = "utf-8"
    date_format: str | None = None
    timestamp_format: str | None = None
    timezone: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class DbtProject:
    """The dbt project that a project was made from.

    Attributes:
        project: its folder, as written; relative to the project file's folder.
        stages: the stage of a table, by dbt's unique id, where the stage has another name.
    """

    project: str
    stages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The content of `deltaproduce.toml`.

    Attributes:
        folder: the folder of the file; its paths are relative to it.
        pipeline: ``module:object``, or a folder of modules.
        store: a path (with a ``/`` or a scheme), or ``schema`` or ``catalog.schema``.
        keep_days: the versions that a vacuum keeps: those that were the newest in so many days;
            None if the command says it.
        spark: settings of the session.
        inputs: source -> where its rows are; a source not listed has no input file.
        vars: the variables that SQL files use, by name.
        time_zone: the time zone of the store; None for that of its newest version.
        dbt: the dbt project that it was made from; None if it was not.
    """

    folder: Path
    name: str
    pipeline: str
    store: str
    engine: Literal["local", "spark"]
    table_type: Literal["merge_on_read", "copy_on_write"]
    policy: Literal["auto", "incremental", "strict"]
    spark: Mapping[str, str]
    inputs: Mapping[str, Input]
    vars: Mapping[str, Any]
    time_zone: str | None = None
    keep_days: float | None = None
    dbt: DbtProject | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / FILE_NAME

    @property
    def location(self) -> str:
        """The store's location, independent of the current directory."""
        return self.place(self.store) if "/" in self.store else self.store

    def place(self, path: str) -> str:
        """Resolve a path of the file, independent of the current directory."""
        return path if has_scheme(path) else str(self.folder / path)


def has_scheme(path: str) -> bool:
    """Return whether a path names its file system."""
    return "://" in path or path.startswith("file:")


_NONE: Final[Mapping[str, object]] = MappingProxyType({})


def read(folder: Path, given: Mapping[str, object] = _NONE) -> ProjectFile:
    """Read the project file of a folder.

    Args:
        given: values that override its variables.

    Raises:
        ProjectFileError: there is no file, or something in it is wrong.
    """
    path = folder.absolute() / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise ProjectFileError(
            f"there is no {FILE_NAME} in {str(folder.absolute())!r}: go to the project's folder, "
            "name it with --project-dir, or make one with: deltaproduce init NAME"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectFileError(f"{FILE_NAME} cannot be read: {error}") from error
    try:
        return parsed(text, path.parent, given)
    except ProjectFileError as error:
        line = re.search(r"at line ([0-9]+)", str(error)) if error.line is None else None
        error.file, error.line = FILE_NAME, int(line[1]) if line else error.line
        raise


def parsed(text: str, folder: Path, given: Mapping[str, object] = _NONE) -> ProjectFile:
    """Parse the text of a project file.

    Args:
        given: values that override its variables.

    Raises:
        ProjectFileError: something in it is wrong.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProjectFileError(f"{FILE_NAME} is not TOML: {error}") from None
    root = Section("", values)
    project = root.section("project")
    sources, spark = root.section("sources", required=False), root.section("spark", required=False)
    named = root.section("vars", required=False)
    dbt = _dbt(root.section("dbt")) if "dbt" in values else None
    root.close()
    return _checked(
        ProjectFile(
            folder=folder,
            name=project.text("name"),
            pipeline=project.text("pipeline", "stages"),
            store=_place(project),
            engine=project.choice("engine", _ENGINES, "local"),
            table_type=project.choice("table_type", _TABLE_TYPES, "copy_on_write"),
            policy=project.choice("policy", _POLICIES, "auto"),
            spark=spark.settings(),
            inputs={name: _input(name, sources.section(name)) for name in sources.values},
            vars=variables(named.values, given),
            time_zone=_time_zone(project),
            keep_days=project.number("keep_days"),
            dbt=dbt,
        ),
        project,
    )


def _dbt(section: Section) -> DbtProject:
    """Return the dbt project that the file names."""
    stages = section.section("stages", required=False)
    dbt = DbtProject(section.text("project"), {id: stages.text(id) for id in stages.values})
    section.close()
    return dbt


def _time_zone(project: Section) -> str | None:
    """Return the time zone of the store; None if none is named."""
    if "timezone" not in project.values:
        return None
    named = project.text("timezone")
    zone = known(named)
    if zone is None:
        project.refuse("timezone", '"Europe/Paris", or an offset such as "+02:00"')
    return zone


def _place(project: Section) -> str:
    """Return where the store is: ``location``, or its synonym ``store``."""
    if "location" in project.values and "store" in project.values:
        raise ProjectFileError(
            f"{FILE_NAME}: [project] has both location and store, which mean the same: keep one"
        )
    return project.text("store" if "store" in project.values else "location")


def _input(source: str, section: Section) -> Input:
    options = section.section("options", required=False).settings()
    input_ = Input(
        source=source,
        format=section.text("format"),
        path=section.text("path"),
        mode=section.choice("mode", _MODES, None),
        delimiter=section.text("delimiter", ","),
        null=section.text("null", "", may_be_empty=True),
        decimal=section.choice("decimal", (".", ","), "."),
        encoding=section.text("encoding", "utf-8"),
        date_format=section.optional_text("date_format"),
        timestamp_format=section.optional_text("timestamp_format"),
        timezone=section.optional_text("timezone"),
        options=options,
        optional=section.texts("optional"),
        names=section.section("names", required=False).settings(),
        allow_empty=section.flag("allow_empty"),
    )
    section.close()
    if len(input_.delimiter) != 1 or not input_.delimiter.isascii() or input_.delimiter in '"\r\n':
        section.refuse("delimiter", "an ASCII character that is neither a quote nor a line end")
    for key, formats in _SETTINGS.items():
        if key in section.values and input_.format not in formats:
            section.refuse(
                key, f"it for {' or '.join(formats)} only; the format is {input_.format}"
            )
    return input_


_SETTINGS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "delimiter": ("csv",),
        "null": ("csv",),
        "decimal": ("csv",),
        "encoding": ("csv", "json"),
        "date_format": ("csv", "json"),
        "timestamp_format": ("csv", "json"),
        "timezone": FILE_FORMATS,
        "optional": FILE_FORMATS,
        "names": FILE_FORMATS,
    }
)
"""The formats that a setting of a source is for."""


def _checked(file: ProjectFile, project: Section) -> ProjectFile:
    """Return the file if its settings fit together.

    Raises:
        ProjectFileError: they do not.
    """
    project.close()
    if Path(file.pipeline).is_absolute():
        project.refuse("pipeline", "'module:object', or a folder relative to the project's")
    local = file.engine == "local"
    if local and "/" not in file.store:
        named = "store" if "store" in project.values else "location"
        project.refuse(named, f'a path, "./{file.store}"; a schema needs engine = "spark"')
    if local and file.spark:
        raise ProjectFileError(
            f'{FILE_NAME}: [spark] is there, and engine is "local": remove it, or set '
            'engine = "spark" in [project]'
        )
    if not file.spark.get("cores", "1").isdecimal():
        Section("spark", file.spark).refuse("cores", "a whole number")
    for input_ in file.inputs.values():
        _check_input(input_, local=local)
    return file


def _check_input(input_: Input, *, local: bool) -> None:
    section = Section(f"sources.{input_.source}", _said(input_))
    if input_.mode == "changes" and input_.format not in FILE_FORMATS:
        advice = "those of a Delta table are taken by a Pipeline.delta_source, without an input"
        section.refuse("format", f'"csv", "json" or "parquet" for changes; {advice}')
    if input_.mode == "changes" and has_scheme(input_.path):
        section.refuse("path", 'a path of this machine for mode "changes"')
    if input_.allow_empty and input_.mode == "changes":
        section.refuse("allow_empty", 'it for mode "snapshot" only: changes may be none')
    if local and input_.format not in (*FILE_FORMATS, "delta"):
        section.refuse("format", '"csv", "json", "parquet" or "delta"; others need engine "spark"')
    if local and has_scheme(input_.path):
        section.refuse("path", 'a path of this machine; others need engine = "spark"')
    if input_.options and input_.format in FILE_FORMATS:
        section.refuse(
            "options",
            f"no options, which are for Spark's reader: {input_.format} files "
            "are read by this library",
        )
    if local and input_.options:
        section.refuse("options", "no table of options, which are for Spark's reader")


def _said(input_: Input) -> dict[str, Any]:
    return {
        "format": input_.format,
        "path": input_.path,
        "options": dict(input_.options),
        "allow_empty": input_.allow_empty,
    }
