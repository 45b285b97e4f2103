"""Random views: queries that are no key-local ones, and changes of the stages that they read."""

from __future__ import annotations

from random import Random

from random_queries import Queries
from view_queries import STAGES, random_value

from deltaproduce import Pipeline
from deltaproduce.testing import Change, Delete, Upsert

KEYS = (None, 1, 2, 3)


def stages_alone() -> Pipeline:
    """The stages that queries read."""
    pipeline = Pipeline("random")
    for name, schema in STAGES.items():
        pipeline.source(name, key=schema.key.ddl, value=schema.value.ddl)
    return pipeline


def batch(random: Random) -> dict[str, list[Change]]:
    """Changes of all stages at once, of some, or of none; a stage may be emptied.

    A key may have several rows.
    """
    found = dict[str, list[Change]]()
    for name, schema in STAGES.items():
        if random.random() < 0.3:
            continue
        if random.random() < 0.1:
            found[name] = [Delete((key,)) for key in KEYS]
            continue
        changes = list[Change]()
        for key in random.sample(KEYS, random.choice((1, 2, 4))):
            if random.random() < 0.3:
                changes.append(Delete((key,)))
                continue
            for _ in range(random.choice((1, 1, 2))):
                value = tuple(random_value(random, column) for column in schema.value.names)
                changes.append(Upsert((key,), value))
        found[name] = changes
    return found


def view(random: Random) -> str:
    """A random query that is not key-local, and so a view."""
    while True:
        text = Queries(random, depth=random.choice((1, 2))).query()
        if stages_alone().sql("v", text).kind.word == "view":
            return text
