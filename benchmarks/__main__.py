"""``python -m benchmarks``: times competitors, checks their results, and reports as it goes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import options, policy, report, w1
from benchmarks.competitors import COMPETITORS, OURS, able, all_of_them
from benchmarks.first_load import first_load, of_w1
from benchmarks.runs import Bench, Size, cases, guarded, opened
from benchmarks.series import series
from benchmarks.sessions import Place
from benchmarks.shapes import SHAPES

VERSIONS: Final = "versions"
FIRST_LOAD: Final = "first-load"

Save = Callable[[], None]


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; return 1 if a competitor was wrong or failed."""
    shapes = [*SHAPES, VERSIONS, FIRST_LOAD]
    given = options.parsed(arguments, list(COMPETITORS), all_of_them(), shapes)
    names = {name: COMPETITORS[name].name for name in given.peers}
    run = report.empty(options.without_places(arguments), names)

    place = Place(
        memory=given.memory,
        master=given.master,
        workers=given.cluster,
        is_tuned=given.settings == "tuned",
    )

    def save() -> None:
        report.write(run, Path(given.out))

    with opened(given.directory, place) as bench:
        for rows in given.rows if given.peers else ():
            _w1(bench, given, rows, run["sizes"], save)
        for name in given.shapes:
            if name in SHAPES:
                _shape(bench, given, name, run["shapes"], save)
        if VERSIONS in given.shapes:
            peers = {name: COMPETITORS[name] for name in _ours(given)}
            run["versions"] = guarded(
                VERSIONS, lambda: series(bench, given.shape_rows, given.versions, peers)
            )
            save()
        if FIRST_LOAD in given.shapes:
            ours = {name: OURS[name] for name in _ours(given)}
            for rows in given.load_rows:
                load = partial(first_load, bench, rows, of_w1(ours))
                run["first loads"].append(guarded(FIRST_LOAD, load))
                save()
    run["complete"] = True
    save()
    return int(report.failed(run))


def _w1(bench: Bench, given: Namespace, rows: int, results: list[Any], save: Save) -> None:
    """Run one size of W1; store it after its load, each of its cases, and its check."""
    keys = options.changed_keys(given.changed, rows)
    efforts = policy.efforts(given.peers, rows, keys, steps=given.steps, limited=given.limited)
    taking_part = set().union(*efforts.values())
    peers = {name: COMPETITORS[name] for name in given.peers if name in taking_part}
    results.append(result := {})
    for _ in cases(Size.of(bench, w1.workload(given.stages), rows, peers), efforts, result):
        save()


def _shape(bench: Bench, given: Namespace, name: str, results: list[Any], save: Save) -> None:
    """Run one shape, and store it when it is done."""
    named = [] if given.limited else given.peers
    peers = {peer: COMPETITORS[peer] for peer in policy.shape_peers(named, able(name))}
    shape = SHAPES[name]()
    keys = policy.shape_keys(given.shape_rows)
    result = {"name": name, "what": shape.what}
    size = Size.of(bench, shape, given.shape_rows, peers)
    for _ in cases(size, {keys: dict.fromkeys(peers, policy.SHAPE)}, result):
        pass
    results.append(result)
    save()


def _ours(given: Namespace) -> list[str]:
    """Return our table types that were asked for by name; the default if none was."""
    named = () if given.limited else given.peers
    return [name for name in named if name in OURS] or ["ours"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
