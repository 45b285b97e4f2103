"""Views: a schema in which each stage of the head has a view, for readers that use SQL alone.

A view is a query from `reading.selects`. It names each table at the delta version that the head
pins, so it shows one whole version while the next is written. The store publishes the version first
and then replaces one view after the other; a reader of several views may see two versions
meanwhile. The invariant: every writer that has published, or opened the store, continues until the
views show the head that it then reads. So if a writer stops in between, or is overtaken, the next
one repairs the views. The properties of a view say which store it belongs to; nothing else is
replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark import views
from deltaproduce.errors import (
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    SessionError,
    ViewError,
)
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.selects import select
from deltaproduce.storage.failpoints import effect
from deltaproduce.storage.locations import Location
from deltaproduce.storage.versions import EMPTY, Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE: Final = "deltaproduce.store"
_STAGE: Final = "deltaproduce.stage"
_VERSION: Final = "deltaproduce.version"
_DIGEST: Final = "deltaproduce.digest"
_HEAD: Final = "head"
_NAME: Final = re.compile("[A-Za-z0-9_]+")
_AT: Final = re.compile(".*__at_[0-9]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlView:
    """The identity of a view, as its properties record it.

    Attributes:
        version: the number of a version; None for the head.
        digest: the digest of its text.
    """

    stage: str
    version: int | None
    digest: str = ""

    @property
    def name(self) -> str:
        """The name of the view."""
        return self.stage if self.version is None else f"{self.stage}__at_{self.version}"

    def properties(self, store: str) -> dict[str, str]:
        """Return the properties of the view."""
        version = _HEAD if self.version is None else str(self.version)
        return {_STORE: store, _STAGE: self.stage, _VERSION: version, _DIGEST: self.digest}

    @staticmethod
    def parse(properties: Mapping[str, str], store: str) -> SqlView | None:
        """Parse the output of `properties`.

        Return None if the view does not belong to the store.
        """
        version = properties.get(_VERSION, "")
        if properties.get(_STORE) != store or not re.fullmatch(f"{_HEAD}|[0-9]+", version):
            return None
        number = None if version == _HEAD else int(version)
        return SqlView(properties.get(_STAGE, ""), number, properties.get(_DIGEST, ""))


def digest(text: str) -> str:
    """Return a digest that distinguishes a text from others."""
    return hashlib.sha256(text.encode()).hexdigest()


def faults(stages: Iterable[str]) -> dict[str, str]:
    """Return the stages that cannot have a view, and why. Stage names never differ only in case."""
    errors: dict[str, str] = {}
    for stage in stages:
        if not _NAME.fullmatch(stage):
            errors[stage] = "catalogs take letters from A to Z, digits and _"
        elif _AT.fullmatch(stage):
            errors[stage] = "names that end like this are those of views of earlier versions"
    return errors


def superseded(
    views: Collection[SqlView], wanted: Collection[SqlView], head: Version
) -> list[SqlView]:
    """Return the views to drop: those of stages and versions that no longer exist.

    The view of a stage stays if the head has the stage but the pipeline that opened the store does
    not define it: this writer cannot know its text.
    """
    names = {view.name for view in wanted}
    gone = [view for view in views if view.name not in names]
    return [view for view in gone if view.version is not None or view.stage not in head.stages]


class Views:
    """The views of one store in one schema.

    Args:
        schema: a schema other than the one of the store's tables.
    """

    def __init__(self, opened: Opened, schema: Location) -> None:
        self._opened = opened
        self._schema = schema
        self._store = opened.tables.location.address
        self._lock = Lock()
        self._existing: dict[str, SqlView] = {}
        self._foreign: set[str] = set()

    @staticmethod
    def opened(store: Opened, schema: str) -> Views:
        """Return the views, brought to the head; see `Store`.

        Raises:
            DefinitionError: a stage cannot have a view there.
            InvalidArgumentError: it is not the name of a schema.
            SessionError: the store has no session.
            ViewError: a view could not be replaced.
        """
        place = Location.parse(arguments.text(schema, "views"))
        if not place.in_catalog:
            raise InvalidArgumentError(
                f"views is {schema!r}, which is a path; give the name of a schema, or of "
                "catalog.schema",
                argument="views",
            )
        if store.engines.session is None:
            raise SessionError(
                f"views in the schema {schema!r} need a session: open the store with one, "
                "Store(deltaproduce.local_session(), …)"
            )
        views = Views(store, place.within(store.engines.spark.catalog.currentCatalog()))
        views._check_names()
        views._look()
        views.follow()
        return views

    def follow(self) -> None:
        """Bring the views to the head; repeat if another writer has published meanwhile.

        Raises:
            ViewError: a view could not be replaced.
        """
        with self._lock:
            while self._follow(self._opened.log.versions()):
                pass

    def create(self, stage: str | Stage, version: int) -> str:
        """See `Store.create_view`."""
        target = self._opened.stage(stage)
        at = self._opened.version(arguments.integer(version, "version"))
        self._opened.check_there(at, [target.name], CONTENT, RUNS)
        view, text = self._view_with_text(target, at, at.number)
        with self._lock:
            self._check_free([view.name])
            self._replace([(view, text)], at)
        return self._schema.named(view.name).address

    def _follow(self, versions: Sequence[Version]) -> bool:
        """Bring the views to the newest version; return whether any view was outdated."""
        head = versions[-1] if versions else EMPTY
        if not head.number:
            return False
        wanted = self._wanted(head, versions)
        late = [
            (view, text) for view, text in wanted if self._existing.get(_key(view.name)) != view
        ]
        gone = superseded(self._existing.values(), [view for view, _ in wanted], head)
        self._replace(late, head)
        self._drop(gone, head)
        return bool(late or gone)

    def _wanted(self, head: Version, versions: Sequence[Version]) -> list[tuple[SqlView, str]]:
        """Return the views that should exist, and their texts."""
        stages = {stage.name: stage for stage in self._stages()}
        numbered = {version.number: version for version in (EMPTY, *versions)}
        wanted = [
            self._view_with_text(stage, head, None)
            for name, stage in stages.items()
            if name in head.stages and not head.stages[name].origin.table
        ]
        for view in self._existing.values():
            at = None if view.version is None else numbered.get(view.version)
            stage = stages.get(view.stage)
            if at is not None and stage is not None and self._is_there(at, stage):
                wanted.append(self._view_with_text(stage, at, at.number))
        return wanted

    def _is_there(self, version: Version, stage: Stage) -> bool:
        try:
            self._opened.check_there(version, [stage.name], CONTENT, RUNS)
        except NotFoundError:
            return False
        return True

    def _view_with_text(
        self, stage: Stage, version: Version, number: int | None
    ) -> tuple[SqlView, str]:
        text = select(self._opened.tables, version, stage, CONTENT)
        return SqlView(stage.name, number, digest(text)), text

    def _replace(self, replaced: Sequence[tuple[SqlView, str]], version: Version) -> None:
        if replaced:
            with _naming_view(version, self._schema.address):
                self._opened.tables.committer.ensure_schema(self._schema)
        for view, text in replaced:
            address = self._schema.named(view.name).address
            with _naming_view(version, address), effect("replace view", address):
                views.replace(self._spark, address, text, view.properties(self._store))
            self._existing[_key(view.name)] = view

    def _drop(self, gone: Sequence[SqlView], version: Version) -> None:
        for view in gone:
            address = self._schema.named(view.name).address
            with _naming_view(version, address), effect("drop view", address):
                views.drop(self._spark, address)
            del self._existing[_key(view.name)]

    @property
    def _spark(self) -> SparkSession:
        return self._opened.engines.spark

    def _stages(self) -> tuple[Stage, ...]:
        """Return the stages that users have defined."""
        return self._opened.graph.shown

    def _check_names(self) -> None:
        """Refuse a schema that the store's tables are in, and stages that cannot be views."""
        if self._schema == self._opened.tables.location:
            raise DefinitionError(
                f"views cannot be in {self._schema.address}, where the store has tables of the "
                "same names: use another schema"
            )
        names = [stage.name for stage in self._stages()]
        for stage, fault in faults(names).items():
            raise DefinitionError(
                f"stage {stage!r} cannot be a view in {self._schema.address}: {fault}", stage=stage
            )

    def _look(self) -> None:
        """List the schema, and refuse a foreign table or view under the name of a view."""
        if not self._spark.catalog.databaseExists(self._schema.address):
            return
        for name, is_view in views.names_in(self._spark, self._schema.address).items():
            address = self._schema.named(name).address
            properties = views.properties(self._spark, address) if is_view else {}
            view = SqlView.parse(properties, self._store)
            if view is None:
                self._foreign.add(_key(name))
            else:
                self._existing[_key(name)] = view
        self._check_free(stage.name for stage in self._stages())

    def _check_free(self, names: Iterable[str]) -> None:
        """Refuse to replace a table or view that is not the store's."""
        for name in names:
            if _key(name) in self._foreign:
                raise DefinitionError(
                    f"{self._schema.named(name).address} is a table or a view that this store has "
                    "not made, so it is not replaced: use another schema for views, or rename it"
                )


@contextmanager
def _naming_view(version: Version, address: str) -> Iterator[None]:
    """Turn a failure to create or replace a view into an error that names the view and version.

    Raises:
        ViewError: the statement failed.
    """
    try:
        yield
    except Exception as error:
        raise ViewError(
            f"version {version.number} is published, but {address} could not be made to show it. "
            "Mend the cause, which comes with this error: the next update, or whoever opens the "
            "store with these views, brings them to the head",
            view=address,
            version=version.number,
        ) from error


def _key(name: str) -> str:
    """Return a name as catalogs compare it."""
    return name.lower()
