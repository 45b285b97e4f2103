"""Places: the tables of a store at a location that this session, or this machine, can reach.

The invariant: a location is refused here, before anything of it is read, if its tables cannot be
read and written where the store is opened. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.engines.spark.file_systems import check_relative
from deltaproduce.errors import SessionError
from deltaproduce.model import arguments
from deltaproduce.storage.locations import Location, is_relative
from deltaproduce.storage.opening.catalogs import check_schema
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.tables import Tables


def tables_at(
    engines: Engines, location: str | os.PathLike[str], stages: Sequence[str] = ()
) -> Tables:
    """Return the tables of a store, if the location can hold them.

    Args:
        location: the location as the user gives it.
        stages: the names of the stages that it is to hold, if they are known.

    Raises:
        DefinitionError: the location is not valid, or cannot hold a stage of that name, or is a
            schema that does not exist or would not last.
        SessionError: only Spark reads and writes there, and there is no session.
        InvalidArgumentError: the location is no text and no path.
    """
    text = arguments.place(location, "location")
    if isinstance(location, os.PathLike):  # always a path, whatever its name
        text = os.path.join(".", text)
    place, session = Location.parse(text), engines.session
    if place.in_catalog and session is None:
        raise SessionError(
            f"location {text!r} is a schema of a catalog, which only Spark has: for a folder write "
            f"'./{text}', for a schema open the store with a session, "
            "Store(deltaproduce.local_session(), …)"
        )
    if place.in_catalog:  # pin the catalog: threads of the session may use another
        place = place.within(engines.spark.catalog.currentCatalog())
    elif session is None:
        _check_seen(place.address, text)
    place.check(stages)
    tables = Tables(TableAccess(engines, place))
    if place.in_catalog:
        check_schema(tables, text)
    elif is_relative(text) and session is not None:
        check_relative(session, text)
    return tables


def _check_seen(address: str, text: str) -> None:
    """Refuse a location that only Spark reads and writes."""
    place = directory(address)
    if place is None or not place.is_taken:
        raise SessionError(
            f"location {text!r} is in a file system that only Spark reads and writes: open the "
            "store with a session, Store(deltaproduce.local_session(), …)"
        )
