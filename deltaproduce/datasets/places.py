"""Places: where data sets can be, and the engines that read them.

The invariant: a data set is in a directory that delta-rs can commit to, on this machine or in an
object store. Spark reads it and never commits there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaproduce.datasets.tables import DataTable
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.deltas import Deltas
from deltaproduce.engines.spark.file_systems import check_relative
from deltaproduce.engines.spark.sessions.session import check_session
from deltaproduce.errors import DefinitionError
from deltaproduce.model import arguments
from deltaproduce.model.limits import Limits
from deltaproduce.storage.locations import Location, is_relative

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engines_of(spark: SparkSession | None) -> Engines:
    """Return the engines for a session, or for none.

    Raises:
        SessionError: the session cannot work with Delta tables.
    """
    if spark is not None:
        check_session(spark)
    return Engines.opened(spark, Limits())


def table_at(location: object, engines: Engines) -> DataTable:
    """Return the table at a location, which may not exist.

    Raises:
        DefinitionError: a data set cannot be there.
        InvalidArgumentError: the location is not text or a path.
    """
    text = arguments.place(location, "location")
    if isinstance(location, os.PathLike):  # a path, even if it looks like a table's name
        text = os.path.join(".", text)
    place = Location.parse(text)
    if place.in_catalog:
        raise DefinitionError(
            f"location {text!r} names a schema of a catalog; a data set is at a path, which has a "
            "'/', such as './events'"
        )
    if is_relative(text) and engines.session is not None:
        check_relative(engines.session, text)
    home = Deltas(engines).within(place.place).directory
    if home is None:
        raise DefinitionError(
            f"location {text!r} is where delta-rs cannot commit: a data set is in a directory of "
            "this machine, of letters, digits, spaces and ./=@+~-, or in an object store"
        )
    return DataTable(place.address, replace(home, path=home.path.rstrip("/")))
