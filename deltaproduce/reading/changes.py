"""Changes: the rows of a stage that came and went between two versions, as users get them.

The invariant: a span with unknown changes gets no answer.
"""

from __future__ import annotations

from typing import get_args

from deltaproduce.engines.change_feed import FeedMode, feed_columns
from deltaproduce.engines.engine import Rows
from deltaproduce.errors import NotFoundError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.storage.versions import span, unbroken


def changes(
    store: Opened, stage: str | Stage, since: int, until: int | None, mode: FeedMode
) -> Rows:
    """See `Store.changes`."""
    target = store.stage(stage)
    arguments.choice(mode, "mode", get_args(FeedMode))
    first = arguments.integer(since, "since")
    last = None if until is None else arguments.integer(until, "until")
    versions = span(store.log.versions(), first, last)
    if not unbroken(versions, target.name):
        raise NotFoundError(
            f"stage {target.name!r} was not in the pipeline of every version from {first!r} to "
            f"{versions[-1].number}, with the same columns: what happened to it in between is "
            "not known; load it anew"
        )
    store.check_there(versions[0], [target.name], CONTENT, RUNS)
    with store.noticing():
        rows = store.reader.changes(versions, target, mode)
    return store.frame(rows, feed_columns(Layout.of(target).fed))
