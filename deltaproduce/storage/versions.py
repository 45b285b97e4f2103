"""Versions: which delta version of each table together is one state of a store.

Everything here is a value, without Spark. The invariant: a `Version` names the delta version of
every table that exists in it, so a reader needs nothing else to read one state, and a stage that a
version did not touch has the same delta versions as in the version before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from deltaproduce.errors import CorruptStoreError, InvalidArgumentError, NotFoundError
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.types.columns import Columns, key_columns, row_schema
from deltaproduce.types.json_fields import (
    Kind,
    fields,
    is_integer,
    is_number,
    is_text,
    is_texts,
    objects_of,
    optional,
    parsed,
)

_BESIDE_RUNS: Final = ("content", "key_mappings")

Mode = Literal["skipped", "seek", "merge", "rewrite", "full", "restore"]


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What one version did to one stage.

    Attributes:
        mode: ``skipped`` (not touched), ``seek`` (affected rows found by predicate and replaced),
            ``merge`` (found by a join with the whole table, and replaced), ``rewrite`` (the content
            written anew, in order), ``full`` (produced from all of the feeder) or ``restore`` (set
            back to what it was).
        reason: why this mode, in words.
        affected_keys: target keys that were looked at.
        changed_keys: target keys in this version's updates.
        rows_added: content rows written that were not there before.
        rows_removed: content rows that are gone.
        rows: content rows in this version.
        row_bytes: about how many bytes one has in memory.
        seconds: wall time of the stage's computation, without its commits.
        delta_versions: ``content``, ``key_mappings``, ``updates`` and, with merge on read, ``runs``
            -> the Delta table's version. If there are ``runs``, the first two lack their rows:
            `Version.delta_version` says so.
        added: kind -> commits that added to the table since its rows were last put in order. At 0
            the files of that delta version are the rows, in order.
        folded: the version whose rows the content and key mappings tables hold.
        runs: how many runs since then are in the table of runs only.
        run_rows: how many rows they have.
        surrogates: the last surrogate number that was given out, in this version or before.
        surrogate: the column that they are in, if there is one.
        key: the key columns that the tables have, as DDL.
        value: their value columns, as DDL.
        source_key: the key columns of the feeders that they were made from, as DDL.
        table: of a source that is read in place, the Delta table that is its content; then
            ``content`` in ``delta_versions`` is that table's.
        table_id: that table's id.
        table_micros: when that delta version was committed, in microseconds since 1970.
        begun: the version whose updates are all rows that there were then, if updates were begun
            anew since there are any. Of a source that is read in place they are not stored, but in
            the table at
        begun_at: this delta version; -1 if they are stored.
        remade: kind -> the version in which a table was made anew that someone else had removed.
            Older versions pin delta versions of a table that is not there any more.
    """

    mode: Mode
    reason: str = ""
    affected_keys: int = 0
    changed_keys: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    rows: int = 0
    row_bytes: int = 0
    seconds: float = 0.0
    delta_versions: Mapping[str, int] = field(default_factory=dict)
    added: Mapping[str, int] = field(default_factory=dict)
    folded: int = 0
    runs: int = 0
    run_rows: int = 0
    surrogates: int = 0
    surrogate: str | None = None
    key: str = ""
    value: str = ""
    source_key: str = ""
    table: str = ""
    table_id: str = ""
    table_micros: int = 0
    begun: int = 0
    begun_at: int = 0
    remade: Mapping[str, int] = field(default_factory=dict)

    def at(self, delta_versions: Mapping[str, int]) -> StageFigures:
        """The same figures, with some tables, by kind, at these delta versions."""
        return replace(self, delta_versions={**self.delta_versions, **delta_versions})

    def carried(self) -> StageFigures:
        """The figures of the same stage in a next version that does not touch it."""
        return replace(
            self,
            mode="skipped",
            reason="not reached",
            affected_keys=0,
            changed_keys=0,
            rows_added=0,
            rows_removed=0,
            seconds=0.0,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One published state of all tables of a store; number 0 is the empty one.

    Attributes:
        number: 1, 2, 3, …
        committed_at: when it was published, with time zone; None for the empty version.
        operation: ``update``, ``load``, ``refresh``, ``rollback``, ``forget`` or ``repair``.
        update_id: the caller's name for the batch, if it gave one.
        stages: figures of every source and stage by name.
        definitions: stage name -> fingerprint of the definition its tables were made by.
        attempt: the attempt that published it.
        fencing_token: of the head, that of the version log's newest commit when the head was read.
    """

    number: int
    committed_at: datetime | None
    operation: str
    update_id: str | None
    stages: Mapping[str, StageFigures]
    definitions: Mapping[str, Fingerprint] = field(default_factory=dict)
    attempt: Attempt | None = None
    fencing_token: int = field(default=0, compare=False)

    def delta_version(self, stage: str, kind: str) -> int | None:
        """The delta version at which a table has the rows of this version, for plain SQL.

        Args:
            kind: ``content``, ``key_mappings`` or ``updates``; the updates are those of this
                version and all before it.

        Returns:
            None if the table does not exist in this version.

        Raises:
            InvalidArgumentError: no delta version of the table has them: some are in the table of
                runs (merge on read).
        """
        figures = self.stages.get(stage)
        if figures is not None and figures.runs and kind in _BESIDE_RUNS:
            raise InvalidArgumentError(
                f"table {kind!r} of stage {stage!r} has the rows of version {figures.folded}, and "
                f"what came after it up to version {self.number} is in {figures.runs} runs beside "
                f"it (merge on read): read it with store.{kind}({stage!r}, {self.number}). Open "
                "the store with table_type='copy_on_write' if plain SQL is to read what comes",
                argument="kind",
            )
        return self.pinned(stage, kind)

    def pinned(self, stage: str, kind: str) -> int | None:
        """The delta version at which the store reads a table, with or without runs beside it.

        None when the table does not exist in this version.
        """
        figures = self.stages.get(stage)
        return None if figures is None else figures.delta_versions.get(kind)


@dataclass(frozen=True, slots=True)
class InPlace:
    """Where the content of a source is that is someone else's table.

    Attributes:
        table: its path or name, as the pipeline says it.
        id: Delta's.
        micros: when that delta version was committed, in microseconds since 1970.
    """

    table: str
    id: str
    delta_version: int
    micros: int

    @staticmethod
    def of(figures: StageFigures) -> InPlace | None:
        """That of a source in a version; None if it has no rows there."""
        if not figures.table or "content" not in figures.delta_versions:
            return None
        pinned = figures.delta_versions["content"]
        return InPlace(figures.table, figures.table_id, pinned, figures.table_micros)

    def pinned(self, figures: StageFigures) -> StageFigures:
        """Figures that say so."""
        return replace(
            figures,
            delta_versions={**figures.delta_versions, "content": self.delta_version},
            table=self.table,
            table_id=self.id,
            table_micros=self.micros,
        )


EMPTY = Version(0, None, "empty", None, {})
"""The version before the first: every table reads as empty."""


@dataclass(frozen=True, slots=True)
class Part:
    """What an attempt does to one stage, as each of its commits to the stage's tables says.

    So that a later attempt finds out what is stored of this one, and can carry on.

    Attributes:
        stages: the names of all stages that the attempt commits to, feeders first.
        before: those that were complete by then -> the delta versions that it made of their tables.
        kinds: the tables of this stage that it commits to.
        figures: what its version says of this stage, but for what the commits become.
    """

    stages: tuple[str, ...]
    before: Mapping[str, Mapping[str, int]]
    kinds: tuple[str, ...]
    figures: StageFigures

    @staticmethod
    def parse(found: object) -> Part | None:
        """The inverse of `asdict`, from JSON; None if it is none of ours."""
        values = fields(found, _PART, required=_PART)
        figures = None if values is None else figures_of(values["figures"])
        if values is None or figures is None:
            return None
        return Part(tuple(values["stages"]), values["before"], tuple(values["kinds"]), figures)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one writer at publishing one version, dropping old ones, or folding runs of one.

    Attributes:
        id: unique.
        version: the number it tries to publish; or the head's, if it drops versions; or that of the
            version whose runs it folds.
        folds: of a fold, the delta version of the table that it goes on from.
        started_at: when, with time zone; None if that is not known.
        given: a digest of what it was given to do, if a later attempt may carry it on.
        part: what it does to the stage whose table a commit is to, if it may be carried on.
        fencing_token: what its commit to the version log carries: the one after that which it read.
        table: of one that is read from a commit, the name of the table that the commit is to.
    """

    id: str
    version: int
    folds: int | None = None
    started_at: datetime | None = field(default=None, compare=False)
    given: str | None = field(default=None, compare=False)
    part: Part | None = field(default=None, compare=False)
    fencing_token: int = field(default=0, compare=False)
    table: str | None = field(default=None, compare=False)

    @staticmethod
    def after(head: Version, started_at: datetime, given: str | None = None) -> Attempt:
        """A new attempt at the version after ``head``."""
        attempt = Attempt.dropping(head, started_at)
        return replace(attempt, version=head.number + 1, given=given)

    @staticmethod
    def dropping(head: Version, started_at: datetime) -> Attempt:
        """A new attempt at dropping versions before ``head``."""
        return Attempt(
            uuid.uuid4().hex,
            head.number,
            started_at=started_at,
            fencing_token=head.fencing_token + 1,
        )

    @staticmethod
    def compacting(version: Version, base: int) -> Attempt:
        """A new attempt at folding a version's runs into a table."""
        return Attempt(uuid.uuid4().hex, version.number, base)

    @staticmethod
    def parse(metadata: str | None) -> Attempt | None:
        """The inverse of `metadata`; None if it is not one of ours, whatever it is.

        Anyone may write anything there. What is like ours in part is not ours.
        """
        found = fields(parsed(metadata), _ATTEMPT, required=("table", "version", "attempt"))
        if found is None:
            return None
        part = Part.parse(found["part"]) if "part" in found else None
        if "part" in found and part is None:
            return None
        started = found.get("started_at")
        return Attempt(
            found["attempt"],
            found["version"],
            found.get("folds"),
            None if started is None else datetime.fromisoformat(started),
            found.get("given"),
            part,
            found.get("turn", 0),
            found.get("table"),
        )

    def metadata(self, table: str) -> str:
        """What a data commit says of itself in its ``userMetadata``."""
        found = {
            "table": table,
            "version": self.version,
            "attempt": self.id,
            "folds": self.folds,
            "started_at": None if self.started_at is None else self.started_at.isoformat(),
            "given": self.given,
            "part": None if self.part is None else asdict(self.part),
            "turn": self.fencing_token or None,
        }
        return json.dumps({name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit in a Delta table's history.

    Attributes:
        attempt: which of ours made it; None if none did.
        operation: what it was, in Delta's words, such as ``WRITE`` or ``OPTIMIZE``.
        micros: when, in microseconds since 1970.
    """

    delta_version: int
    attempt: Attempt | None
    operation: str = "WRITE"
    micros: int = 0


def find(versions: Iterable[Version], number: int) -> Version:
    """The version of that number.

    Raises:
        NotFoundError: it was never published or is no longer retained.
    """
    if number == 0:
        return EMPTY
    known = {version.number: version for version in versions}
    if number not in known:
        kept = f"{min(known)} to {max(known)}" if known else "none"
        raise NotFoundError(f"version {number!r} is not in this store; versions: {kept}")
    return known[number]


def span(versions: Sequence[Version], since: int, until: int | None = None) -> tuple[Version, ...]:
    """The versions from one to another, both among them; to the newest if ``until`` is None.

    Args:
        versions: all of a store, oldest first.

    Raises:
        NotFoundError: one of the two is not there.
        InvalidArgumentError: they are the wrong way round.
    """
    all_versions = (EMPTY, *versions)
    first = find(versions, since)
    last = all_versions[-1] if until is None else find(versions, until)
    if first.number > last.number:
        raise InvalidArgumentError(
            f"since is version {first.number} and until is {last.number}, which came before: since "
            "is the version that you know, until the one that you want to know",
            argument="since",
        )
    return tuple(v for v in all_versions if first.number <= v.number <= last.number)


def unbroken(versions: Iterable[Version], stage: str) -> bool:
    """Whether a stage's updates say all that happened to it in these versions, oldest first.

    They do not if a pipeline without the stage made some of them, or one that defined it with other
    key or value columns: then its updates were begun anew. So they were if a table that it is read
    from was not known to be the same any more, or if a repair could not trust them.
    """
    figures = [version.stages.get(stage) for version in versions]
    has_tables = [found is not None and bool(found.delta_versions) for found in figures]
    begun = {(found.key, found.value, found.begun) for found in figures if found and found.key}
    return has_tables == sorted(has_tables) and len(begun) <= 1


def check_there(head: Version, version: Version, stages: Iterable[str], *kinds: str) -> None:
    """Refuse an older version of tables that someone else removed, and a repair made anew.

    Raises:
        NotFoundError: of such a table.
    """
    for stage in stages:
        figures = head.stages.get(stage)
        remade = {} if figures is None else figures.remade
        for kind in kinds:
            pinned = version.pinned(stage, kind)
            if pinned is not None and remade.get(kind, 0) > version.number:
                raise NotFoundError(
                    f"table {kind!r} of {stage!r} is not there any more as of version "
                    f"{version.number}: someone else removed it, and version {remade[kind]} made "
                    "it anew"
                )


def told_since(versions: Sequence[Version], stage: str) -> tuple[int, bool]:
    """Since which version a stage's updates say all that happened to it, up to the newest.

    Args:
        versions: all of a store, oldest first.

    Returns:
        The number; and whether the stage had no rows before, or none that its updates of that
        version do not speak of.
    """
    newest, since = versions[-1].stages[stage], len(versions) - 1
    while since:
        figures = versions[since - 1].stages.get(stage)
        if figures is None or not figures.delta_versions or not _goes_on(figures, newest):
            break
        since -= 1
    return versions[since].number, since > 0 or versions[0].number == 1


def _goes_on(one: StageFigures, other: StageFigures) -> bool:
    """Whether the updates of two versions of a stage are of one series."""
    return (one.key, one.value, one.begun) == (other.key, other.value, other.begun)


def stage_at(version: Version, stage: Stage) -> Stage:
    """A stage with the columns that its tables have in a version; itself if they are the same."""
    figures = version.stages.get(stage.name)
    if figures is None or not figures.key or has_columns(figures, stage):
        return stage
    schema = row_schema(figures.key, figures.value, stage=stage.name)
    source_key = key_columns(figures.source_key) if figures.source_key else Columns(())
    return stage.with_columns(schema, source_key)


def has_columns(figures: StageFigures, stage: Stage) -> bool:
    """Whether a stage's tables have the columns that it is defined with."""
    return columns_of(stage) == (figures.key, figures.value, figures.source_key)


def columns_of(stage: Stage) -> tuple[str, str, str]:
    """The key, value and source key columns of a stage, as DDL; a source has no source key."""
    source_key = stage.feeders[0].schema.key.ddl if stage.feeders else ""
    return stage.schema.key.ddl, stage.schema.value.ddl, source_key


def figures_to_json(stages: Mapping[str, StageFigures]) -> str:
    """The figures as the version log stores them."""
    return json.dumps({name: asdict(figures) for name, figures in stages.items()})


def figures_from_json(text: str) -> dict[str, StageFigures]:
    """The inverse of `figures_to_json`.

    Raises:
        CorruptStoreError: someone else wrote the text.
    """
    found = parsed(text)
    stages = {name: figures_of(of) for name, of in found.items()} if isinstance(found, dict) else {}
    figures = {name: known for name, known in stages.items() if known is not None}
    if not isinstance(found, dict) or not is_texts(list(found)) or len(figures) < len(found):
        raise CorruptStoreError(
            f"the version log has figures that no store has written: {text[:_SHOWN]!r}; "
            "store.repair() sets it back, or restore the table from a backup",
            table="_versions",
        )
    return figures


def figures_of(found: object) -> StageFigures | None:
    """A stage's figures by name; those that a later release added are passed over.

    None if they are not those of a stage.
    """
    values = fields(found, _FIGURES, required=("mode",))
    return None if values is None else StageFigures(**values)


def _is_time(value: object) -> bool:
    """Whether it is a time as `Attempt.metadata` says one."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _is_count(value: object) -> bool:
    return isinstance(value, int) and is_integer(value) and value >= 0


_SHOWN: Final = 100
_KINDS: Final[Mapping[str, Kind]] = {
    "Mode": is_text,  # a later release may have another one
    "str": is_text,
    "str | None": optional(is_text),
    "int": is_integer,
    "float": is_number,
    "Mapping[str, int]": objects_of(is_integer),
}
_FIGURES: Final[Mapping[str, Kind]] = {
    name: _KINDS[str(known.type)] for name, known in StageFigures.__dataclass_fields__.items()
}
_PART: Final[Mapping[str, Kind]] = {
    "stages": is_texts,
    "before": objects_of(objects_of(is_integer)),
    "kinds": is_texts,
    "figures": lambda value: isinstance(value, dict),
}
_ATTEMPT: Final[Mapping[str, Kind]] = {
    "table": is_text,
    "version": _is_count,
    "attempt": is_text,
    "folds": is_integer,
    "started_at": _is_time,
    "given": is_text,
    "part": lambda value: isinstance(value, dict),
    "turn": _is_count,
}


def has_tables(version: Version, stage: str) -> bool:
    """Whether the stage has been produced, or the source been given rows, by that version."""
    return version.pinned(stage, "content") is not None
