"""A pipeline with a surrogate: pages by address, which get ids, and the links between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deltaproduce as dp

site = dp.Pipeline("site")
links = site.source("links", key="id bigint", value="origin string, target string")


@site.producer(links, key="url string", value="id bigint", surrogate="id")
def pages(_: int, values: Iterator[Any]) -> Iterator[tuple[str, None]]:
    for link in values:
        yield link.origin, None
        yield link.target, None


def link(number: int, origin: str | None = None, target: str | None = None) -> dict[str, Any]:
    """A link, or the removal of one."""
    kind = "delete" if origin is None else "upsert"
    return {"id": number, "origin": origin, "target": target, "_change_type": kind}
