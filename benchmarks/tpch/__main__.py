"""The command: makes the rows, takes the steps, checks them, and writes the report."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import deltaproduce as dp
from benchmarks.runs import say
from benchmarks.tpch import peers
from benchmarks.tpch.dashboards import dashboards
from benchmarks.tpch.first_loads import first_loads
from benchmarks.tpch.ours import Ours
from benchmarks.tpch.peers import Recomputed
from benchmarks.tpch.queries import queries
from benchmarks.tpch.report import markdown
from benchmarks.tpch.results import Run, median
from benchmarks.tpch.rows import LOAD, REFRESH, STEPS, THREADS, Rows, Step, count
from benchmarks.tpch.single_changes import MOST_ROWS, single_changes
from examples.tpch import agree, pipeline

PEERS: Final = ("ours", "duckdb", "spark")
PARTS: Final = ("queries", "dashboards", "changes", "first-loads")
_STEPS: Final = {step.name: step for step in STEPS}
OUT: Final = Path("benchmarks/TPCH.md")


def main(arguments: Sequence[str]) -> int:
    """Run all; return 1 if a result is wrong."""
    given = _parser().parse_args(arguments)
    texts = queries(given.scale)
    _check("--peers", given.peers, PEERS)
    _check("--parts", given.parts, PARTS)
    _check("--steps", given.steps, _STEPS)
    _check("--queries", given.queries or (), texts)
    texts = {name: text for name, text in texts.items() if name in (given.queries or texts)}
    command = shlex.join(["python", "-m", "benchmarks.tpch", *arguments])
    run = Run(command, given.scale, given.peers, tuple(texts))
    with _folder(given.directory) as folder:
        place = folder / f"scale-{given.scale:g}"
        rows = Rows(place, given.scale)
        rows.prepare()
        for _ in _measured(run, place, rows, texts, given):
            given.out.write_text(markdown(run))
        run.is_complete = True
        given.out.write_text(markdown(run))
    say(f"{given.out}: {f'WRONG: {run.wrong}' if run.wrong else 'all results are right'}")
    return int(bool(run.wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tpch", description="TPC-H's queries as views."
    )
    parser.add_argument("--scale", type=float, default=1, help="1 is 1 GB of rows")
    parser.add_argument(
        "--directory", type=Path, help="keeps rows and the store; temporary if none"
    )
    parser.add_argument("--peers", type=_names, default=PEERS, help=",".join(PEERS))
    parser.add_argument("--parts", type=_names, default=PARTS, help=",".join(PARTS))
    steps = f"after the first load, some of {','.join(_STEPS)}"
    parser.add_argument("--steps", type=_names, default=(*_STEPS,), help=steps.replace("%", "%%"))
    parser.add_argument("--queries", type=_names, help="some of them, such as q01,q22")
    parser.add_argument("--memory", default="6g", help="of the Java process")
    parser.add_argument("--out", type=Path, default=OUT, help="the report")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _check(option: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse unknown names.

    Raises:
        SystemExit: there are some.
    """
    unknown = sorted({*given} - {*known})
    if unknown:
        raise SystemExit(f"{option}: {unknown} are unknown; choose among {sorted(known)}")


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    """Yield the folder to work in."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _measured(
    run: Run, place: Path, rows: Rows, texts: Mapping[str, str], given: argparse.Namespace
) -> Iterator[None]:
    """Measure one part after the other; yield when there are new figures.

    Spark comes last: its Java process stays, with its memory.
    """
    by_ours = given.parts if "ours" in run.peers else ()
    if "queries" in by_ours:
        steps = [step for name, step in _STEPS.items() if name in given.steps]
        yield from _versions(run, place / "store", rows, texts, [LOAD, *steps])
    elif "queries" in given.parts:
        run.duckdb[LOAD.name] = peers.in_duckdb(rows, texts)
        yield
    if "dashboards" in by_ours:
        yield from _dashboards(run, place / "dashboards", rows)
    if "changes" in by_ours:
        yield from _changes(run, place / "changes", rows)
    if "queries" in given.parts and "spark" in run.peers:
        _spark(run, place / "spark", rows, texts, given.memory)
        yield
    if "first-loads" in by_ours:
        yield from _first_loads(run, place / "first-loads", rows, texts, given.memory)


def _versions(
    run: Run, place: Path, rows: Rows, texts: Mapping[str, str], steps: Sequence[Step]
) -> Iterator[None]:
    """Take steps, one version each, and check all views after each."""
    with Ours(place, pipeline(texts)) as ours:
        for step in steps:
            run.steps[step.name] = cost = ours.step(rows.batch(step))
            rows.advance(step)
            run.reasons = {name: why for name in texts if (why := ours.reasons(name))}
            expected = run.duckdb[step.name] = peers.in_duckdb(rows, texts)
            wrong = [
                name
                for name, one in expected.items()
                if not agree(ours.answer(name, one.columns), one.rows)
            ]
            run.wrong += [f"{name} at {step.name}" for name in wrong]
            say(f"{step.name}: {cost.whole.seconds:.2f} s{f', wrong: {wrong}' if wrong else ''}")
            yield


def _dashboards(run: Run, place: Path, rows: Rows) -> Iterator[None]:
    refreshed = REFRESH.name in run.steps
    for views, seconds in dashboards(rows, place, run.wrong, refreshed=refreshed):
        run.dashboards[views] = seconds
        say(f"stores with {views} of the dashboards' views: {median(seconds):.2f} s")
        yield
    shutil.rmtree(place)


def _changes(run: Run, place: Path, rows: Rows) -> Iterator[None]:
    run.change_rows = min(count(rows.now["lineitem"]), MOST_ROWS)
    for change, seconds in single_changes(run.change_rows, place, run.wrong):
        run.changes[change] = seconds
        say(f"{', '.join(change)}: {median(seconds):.3f} s")
        yield
    shutil.rmtree(place)


def _spark(run: Run, place: Path, rows: Rows, texts: Mapping[str, str], memory: str) -> None:
    """Recompute all queries in Spark, and compare them with DuckDB's of the same rows."""
    config = {"spark.sql.adaptive.enabled": "true"}
    spark = dp.local_session(cores=THREADS, memory=memory, config=config)
    try:
        run.spark = peers.in_spark(spark, place, rows.now, texts)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    last = list(run.duckdb.values())[-1]
    run.wrong += [f"{one} in Spark" for one in _differing(last, run.spark)]


def _first_loads(
    run: Run, place: Path, rows: Rows, texts: Mapping[str, str], memory: str
) -> Iterator[None]:
    for query, loads in first_loads(memory, rows, place, texts, run.wrong):
        run.first_loads[query] = loads
        ours, inserts = loads.seconds
        say(f"first load of {query} in Spark: {ours:.2f} s, inserted: {inserts:.2f} s")
        yield


def _differing(one: Mapping[str, Recomputed], other: Mapping[str, Recomputed]) -> list[str]:
    return [name for name in one if not agree(one[name].rows, other[name].rows)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
