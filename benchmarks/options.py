"""The command line's options. Pure: no Spark, nothing is written."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import Final

QUICK: Final = "--rows 100000 --changed 1000 --peers ours,recompute,merge --shapes none"
LARGE: Final = "--rows 1000000,50000000 --changed 1000 --peers ours,recompute --shapes none"
SHAPE_ROWS: Final = 500_000
PLACES: Final = ("--out", "--directory")


def parsed(
    arguments: Sequence[str], peers: Sequence[str], present: Sequence[str], shapes: Sequence[str]
) -> argparse.Namespace:
    """Return the options, with names instead of ``all``.

    Args:
        peers: the names that ``--peers`` may give.
        present: the peers that ``all`` stands for here.
        shapes: the names that ``--shapes`` may give.
    """
    parser = _parser(peers, shapes)
    options = parser.parse_args(arguments)
    preset = QUICK if options.quick else LARGE if options.large else ""
    options = parser.parse_args([*preset.split(), *arguments])
    options.limited = options.peers == "all"
    options.peers = _names(parser, options.peers, peers, present)
    options.shapes = _names(parser, options.shapes, shapes, shapes)
    options.shape_rows = options.shape_rows or min(SHAPE_ROWS, *options.rows)
    options.load_rows = options.load_rows or [options.shape_rows, 10 * options.shape_rows]
    return options


def changed_keys(given: Sequence[str], rows: int) -> list[int]:
    """Return the numbers of changed keys for a size; each number once, none above the rows."""
    found = [
        max(1, int(rows * float(text[:-1]) / 100)) if text.endswith("%") else int(text)
        for text in given
    ]
    return [keys for keys in dict.fromkeys(found) if keys <= rows]


def without_places(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that the figures depend on, without output paths."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for place in PLACES:
        parser.add_argument(place)
    return parser.parse_known_args(arguments)[1]


def _parser(peers: Sequence[str], shapes: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Times this library beside what else one would do, checks all results, and "
        "writes a report. benchmarks/README.md says how to read it.",
    )
    add = parser.add_argument
    add("--rows", type=_numbers, default=[1_000_000, 10_000_000], help="source rows, e.g. 1000000")
    add(
        "--changed",
        type=_changed,
        default=["10", "1000", "100000", "10%"],
        help="changed source keys a step: numbers, or percentages of the rows",
    )
    add("--stages", type=int, choices=(1, 2, 3), default=3, help="of W1")
    add(
        "--peers",
        default="all",
        help=f"who does W1: all, none or some of {','.join(peers)}. Those named take part in "
        "every case; with all, each does those that are affordable",
    )
    add("--shapes", default="all", help=f"what else: all, none or some of {','.join(shapes)}")
    add("--shape-rows", type=int, help=f"source rows of the shapes; {SHAPE_ROWS:,} or fewer else")
    add(
        "--load-rows",
        type=_numbers,
        help="source rows of first-load; as many as of the shapes, and ten times as many else",
    )
    add("--versions", type=int, default=100, help="how many the shape of that name makes")
    add("--steps", type=int, default=5, help="measured steps of the main case; others take up to 3")
    add("--memory", default="8g", help="of the Java process")
    add(
        "--master",
        help="a cluster's, such as spark://HOST:PORT, in place of this process's threads",
    )
    add(
        "--cluster",
        type=int,
        default=0,
        metavar="WORKERS",
        help="start Spark standalone here, with so many workers of one core and 3 GB",
    )
    add(
        "--settings",
        choices=("tuned", "default"),
        default="tuned",
        help="of the session: those of local_session, or Delta's and no others",
    )
    add("--directory", help="where to work; a temporary one if none")
    add("--out", default="benchmark-results", help="where the report goes")
    add("--quick", action="store_true", help=f"as if {QUICK} were given")
    add("--large", action="store_true", help=f"as if {LARGE} were given")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


def _changed(text: str) -> list[str]:
    parts = [part.replace("_", "") for part in text.split(",")]
    for part in parts:
        float(part.removesuffix("%"))
    return parts


def _names(
    parser: argparse.ArgumentParser, given: str, known: Collection[str], present: Sequence[str]
) -> list[str]:
    if given in ("all", "none"):
        return list(present) if given == "all" else []
    names = given.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{name!r} is none of {', '.join(known)}")
    return names
