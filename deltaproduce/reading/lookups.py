"""Look-ups: all rows of some keys of a stage in a version, and how they were found.

The invariant: the rows are the content rows with one of the keys, whichever strategy finds them;
rows fetched through an index are those of its feeder, in the same version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import pyarrow as pa

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import InvalidArgumentError, NotFoundError
from deltaproduce.model import arguments
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.reading.given_keys import selected
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.table import UNKNOWN, Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.storage.parquet.lookups import LookedUp, Strategy, Way
from deltaproduce.storage.versions import Version, stage_at


@dataclass(frozen=True, slots=True)
class Lookup(Tabular):
    """The rows of some keys, and how they were found.

    Attributes:
        rows: all rows of the keys, in the columns of the content: a DataFrame, or a pyarrow Table
            without a session. For an index with ``fetch=True``, those of its feeder.
        strategy: ``seek`` if only row groups that may have a key were read, ``scan`` if all were,
            ``mixed`` if some files were sought and others scanned.
        keys: the number of distinct keys; None if only Spark knows it.
        row_groups_read: the number of row groups of Parquet files that were read; None if only
            Spark knows it. Later rows in runs, which are in memory, are not counted.
        row_groups: the number of row groups that exist.
    """

    rows: Rows
    strategy: Way
    keys: int | None
    row_groups_read: int | None
    row_groups: int | None

    def __repr__(self) -> str:
        read = None if self.row_groups is None else f"{self.row_groups_read}/{self.row_groups}"
        return one_line(self, self.strategy, keys=self.keys, row_groups=read)

    def as_tables(self) -> tuple[Table, ...]:
        """How the keys were found, and how many rows they have, where these are at hand."""
        rows = len(self.rows) if isinstance(self.rows, pa.Table) else UNKNOWN
        cells = (self.keys, rows, self.strategy, self.row_groups_read, self.row_groups)
        texts = tuple(UNKNOWN if cell is None else cell for cell in cells)
        columns = ("keys", "rows", "strategy", "row groups read", "row groups")
        return (Table("look-up", columns, (texts,)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """How rows are looked up, and what of them is returned; see `Store.lookup`.

    Attributes:
        internal: whether the rows have the library's columns; see `Reader.lookup`.

    Raises:
        InvalidArgumentError: a value has the wrong type, or there is no such strategy.
    """

    version: int | None = None
    strategy: Strategy = "auto"
    fetch: bool = False
    ordered: bool = False
    internal: bool = True

    def __post_init__(self) -> None:
        arguments.choice(self.strategy, "strategy", get_args(Strategy))
        arguments.flag(self.fetch, "fetch")
        arguments.flag(self.ordered, "ordered")
        arguments.flag(self.internal, "internal")


def lookup(store: Opened, stage: str | Stage, keys: object, options: LookupOptions) -> Lookup:
    """See `Store.lookup`."""
    indexed, wanted = store.stage(stage), store.version(options.version)
    recorded, strategy = stage_at(wanted, indexed), options.strategy
    feeder = _feeder(wanted, indexed) if options.fetch else None
    read = [one.name for one in (recorded, feeder) if one is not None]
    store.check_there(wanted, read, CONTENT, RUNS)
    if any(column.is_hidden for column in recorded.schema.key):
        message = (
            f"stage {recorded.name!r} has one row over all, and no key to look up; read content"
        )
        raise InvalidArgumentError(message, argument="stage")
    sought = selected(keys, recorded.schema.key, store.engines)
    with store.noticing():
        rows, how = _looked_up(store, wanted, recorded, sought, strategy)
        if feeder is not None:
            index, recorded = recorded, feeder
            rows, also = _fetched(store, wanted, index, feeder, rows, sought, strategy)
            how = _together(how, also)
    layout = Layout.of(recorded)
    order = layout.order(CONTENT) if options.ordered else ()
    shown = store.frame(rows, layout.shown, order)
    if not options.internal:
        shown = store.without_internal(shown, recorded)
    count = len(sought.keys) if isinstance(sought.keys, pa.Table) else None
    return Lookup(shown, how.way, count, how.groups_read, how.groups)


def _looked_up(
    store: Opened, version: Version, stage: Stage, keys: Selection, strategy: Strategy
) -> tuple[Rows | None, LookedUp]:
    """Return all rows of some keys; None if the stage has no rows at all."""
    content = store.reader.content_in_files(version, stage)
    if content is None:
        return None, LookedUp(None, "scan" if strategy == "scan" else "seek", 0, 0)
    return content.looked_up(keys, strategy)


def _feeder(version: Version, index: Stage) -> Stage:
    """Return the feeder of an index, which must be defined now as in the version."""
    if not index.kind.key_use.is_index:
        message = f"fetch is True, and {index.name!r} is not an index; look its own rows up"
        raise InvalidArgumentError(message, argument="fetch")
    (feeder,) = index.feeders
    definition = version.definitions.get(index.name)
    was = stage_at(version, feeder)
    if version.stages.get(index.name) is not None and (
        definition != fingerprint(index) or was is not feeder
    ):
        raise NotFoundError(
            f"index {index.name!r} or {feeder.name!r} had another definition in version "
            f"{version.number}, so it is not known which rows have a key; look up the index alone"
        )
    return feeder


def _fetched(
    store: Opened,
    version: Version,
    index: Stage,
    feeder: Stage,
    rows: Rows | None,
    keys: Selection,
    strategy: Strategy,
) -> tuple[Rows | None, LookedUp]:
    """Return the feeder's rows that an index has under some keys.

    Args:
        rows: the rows in the index.
    """
    own, engines = feeder.schema.key.columns, store.engines
    if rows is None:
        return None, LookedUp(None, "scan" if strategy == "scan" else "seek", 0, 0)
    sources = Selection.of(rows, Layout.of(index).sources, engines).renamed(own)
    fetched_rows, how = _looked_up(store, version, feeder, sources, strategy)
    if fetched_rows is None:
        return None, how
    from deltaproduce.stages.productions import derived_kind

    return derived_kind(index).indexed(index, fetched_rows, keys), how


def _together(one: LookedUp, other: LookedUp) -> LookedUp:
    """Combine how the rows of two stages were found."""
    read, groups = (
        None if mine is None or theirs is None else mine + theirs
        for mine, theirs in ((one.groups_read, other.groups_read), (one.groups, other.groups))
    )
    return LookedUp(None, one.way if one.way == other.way else "mixed", read, groups)
