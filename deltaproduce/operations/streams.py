"""Streams: each micro-batch of a Structured Streaming query becomes a version, exactly once.

If Spark cannot know whether a micro-batch was completed, it runs it again, with the same number and
the same rows. The number is part of the version's ``update_id``, so the second run finds the
version, or carries on from what the first run has stored. The invariant: the numbers that a store
has of a stream are consecutive, and each is in exactly one version.

A micro-batch comes in its own session, with other settings than the store's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol

from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import InvalidArgumentError, InvalidChangesError
from deltaproduce.model import arguments
from deltaproduce.storage.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBER: Final = re.compile("[0-9]{1,18}")
"""The number of a micro-batch; it matches no other text that a user puts into an ``update_id``."""


class Updated(Protocol):
    """The part of a store that a stream needs."""

    def update_ids(self) -> Sequence[str]:
        """See `Store.update_ids`."""

    def update(
        self, changes: Mapping[str, object], update_id: str, *, on_conflict: Literal["retry"]
    ) -> Version:
        """See `Store.update`."""


class StreamWriter:
    """The function that ``foreachBatch`` calls; see `Store.stream_writer`.

    Args:
        opened: opens the store in another session.
        stream: the stream's name.
    """

    def __init__(self, opened: Callable[[SparkSession], Updated], source: str, stream: str) -> None:
        self._opened = opened
        self._source = source
        self._stream = stream
        self._store: Updated | None = None
        self._session: SparkSession | None = None

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Publish a micro-batch, unless a version has it; after a conflict it is tried again.

        Raises:
            InvalidChangesError: it is no DataFrame.
            InvalidArgumentError: it has a number that came before the last one: the stream began
                anew, and is another.
            DeltaProduceError: as for `Store.update`; the query fails, and can be started again.
        """
        if not is_frame(changes):
            raise InvalidChangesError(
                f"the micro-batch is a {type(changes).__name__}; foreachBatch gives DataFrames, "
                "and Store.update takes others",
                source=self._source,
            )
        batch_id = arguments.integer(batch_id, "batch_id", least=0)
        if self._store is None or self._session is not changes.sparkSession:
            self._session = changes.sparkSession
            self._store = self._opened(self._session)
        prefix = f"stream {self._stream}: "
        ids = self._store.update_ids()
        ids_of_query = [id_.removeprefix(prefix) for id_ in ids if id_.startswith(prefix)]
        numbers = [int(number) for number in ids_of_query if _NUMBER.fullmatch(number)]
        if batch_id < max(numbers, default=0):
            raise InvalidArgumentError(
                f"micro-batch {batch_id} of stream {self._stream!r} comes after {max(numbers)}: it "
                "began anew, without its checkpoint; name it anew, stream_writer(…, stream=…)",
                argument="stream",
            )
        self._store.update({self._source: changes}, f"{prefix}{batch_id}", on_conflict="retry")
