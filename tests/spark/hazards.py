"""Hazards in and around a store that a vacuum must leave alone, and false version logs."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from crashing import batch, drawn, frames, orders
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store, Vacuumed
from deltaproduce.storage import failpoints

Tree = dict[str, tuple[int, int, int]]


def tree(top: Path) -> Tree:
    """All that is in a directory, by its path from there; links are not followed."""
    found = {}
    for directory, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(directory, name)
            about = path.lstat()
            size = 0 if stat.S_ISDIR(about.st_mode) else about.st_size
            found[str(path.relative_to(top))] = (
                stat.S_IFMT(about.st_mode),
                size,
                about.st_mtime_ns,
            )
    return found


def no_stages_of_before() -> Pipeline:
    """Orders, and a stage of another name: the tables of the one before are in no version."""
    pipeline = Pipeline("others")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(source, key="amount bigint", value="customer bigint")
    def by_amount(_: int, rows: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for customer, amount in rows:
            yield amount, customer

    return pipeline


def moved_on(spark: SparkSession | None, lake: Path) -> Store:
    """The store, opened by a pipeline without a stage that it had, with a version of that."""
    store = Store(spark, str(lake), no_stages_of_before())
    store.update(frames(None, batch((9, 9, 9))))
    return store


def dry_run(spark: SparkSession | None, store: Store, lake: Path, keeps: Iterable[int]) -> None:
    """A dry run changes nothing, and says what a vacuum removes that keeps so many versions.

    Args:
        store: as `moved_on` gives it; an update of it is cut off first.
    """
    store.rollback(2)

    def crash(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish"):
            raise RuntimeError

    with failpoints.armed(crash), pytest.raises(RuntimeError):
        store.update(frames(None, drawn(8)))
    for keep in keeps:
        before = tree(lake)
        seen = Store(spark, str(lake), no_stages_of_before())
        foreseen = seen.vacuum(keep_versions=keep, unfinished_hours=0, dry_run=True)
        assert tree(lake) == before
        assert len(foreseen.paths) == len({*foreseen.paths}) == foreseen.files
        paths = [Path(path.removeprefix("file:")) for path in foreseen.paths]
        assert sum(path.stat().st_size for path in paths) == foreseen.bytes
        done = store.vacuum(keep_versions=keep, unfinished_hours=0)
        assert (done.versions, sorted(done.tables)) == (foreseen.versions, sorted(foreseen.tables))
        assert not [path for path in paths if path.exists()]
        assert done.files >= foreseen.files
        assert done.paths == ()
    assert not (lake / "by_customer").exists()
    nothing = Store(spark, str(lake / "none"), orders())
    assert nothing.vacuum(keep_versions=1, dry_run=True) == Vacuumed((), (), 0, 0)


NESTED = ["inner", "by_customer", "by_customer/inner", "by_customer/content", "orders/content/x"]


def nest(original: Path, lake: Path, outside: Path) -> list[Path]:
    """Stores in the store's folder, in those of its stages, and of its tables."""
    del outside
    for folder in NESTED:
        shutil.copytree(original, lake / folder, dirs_exist_ok=True)
    names = ("_versions", "orders", "by_customer/updates")
    return [lake / folder / name for folder in NESTED for name in names]


def link_stages(original: Path, lake: Path, outside: Path) -> list[Path]:
    """Links to what another store has: folders of stages, tables, and logs alone."""
    other = Path(shutil.copytree(original, outside / "other"))
    (lake / "linked").symlink_to(other / "by_customer")
    (lake / "of tables").mkdir()
    (lake / "of tables" / "content").symlink_to(other / "orders" / "content")
    (lake / "of logs" / "content").mkdir(parents=True)
    log = lake / "of logs" / "content" / "_delta_log"
    log.symlink_to(other / "orders" / "content" / "_delta_log")
    return [other]


def link_own_names(original: Path, lake: Path, outside: Path) -> list[Path]:
    """Links to another store's tables where this store's own are: to a folder, and to a table."""
    other = Path(shutil.copytree(original, outside / "twin"))
    shutil.rmtree(lake / "by_customer" / "content")
    (lake / "by_customer" / "content").symlink_to(other / "by_customer" / "content")
    shutil.rmtree(lake / "orders")
    (lake / "orders").symlink_to(other / "orders")
    return [other / "by_customer" / "content", other / "orders" / "runs"]


def link_files(original: Path, lake: Path, outside: Path) -> list[Path]:
    """Links in a table's folder: to files of any name, and of names that its own log has."""
    del original
    theirs = outside / "theirs"
    theirs.mkdir()
    table = lake / "by_customer" / "updates"
    own = sorted(table.glob("*.parquet"))
    for path in own:
        shutil.copy(path, theirs / path.name)
    (theirs / "part-of-others.parquet").write_bytes(b"theirs")
    (table / "folder").symlink_to(theirs)
    (table / "file.parquet").symlink_to(theirs / "part-of-others.parquet")
    own[0].unlink()
    own[0].symlink_to(theirs / own[0].name)
    return [theirs]


def keep_files(original: Path, lake: Path, outside: Path) -> list[Path]:
    """Folders in that of a table: a backup of its files, under their names, and anything else."""
    del original, outside
    table = lake / "orders" / "content"
    shutil.copytree(table, table / "backup", ignore=shutil.ignore_patterns("_delta_log"))
    (table / "notes" / "of me").mkdir(parents=True)
    (table / "notes" / "of me" / "a.parquet").write_bytes(b"mine")
    return [table / "backup", table / "notes"]


CASES = {
    "stays": (nest, link_stages, link_files, keep_files),
    "stays, is linked": (link_own_names,),
    "goes, has stores": (nest,),
    "goes, has links": (link_stages, link_files),
}


def rewritten(figures: Callable[[dict[str, dict[str, object]]], object]) -> Callable[[str], str]:
    """What is done to the figures in a row of the version log."""

    def change(text: str) -> str:
        found = json.loads(text)
        figures(found)
        return json.dumps(found)

    return change


DOCTORED = {
    "a stage of another folder": lambda found: found.update({"..": found["by_customer"]}),
    "a stage elsewhere": lambda found: found.update({"../../x": found["by_customer"]}),
    "a stage as the log": lambda found: found.update({"_versions": found["by_customer"]}),
    "an absolute stage": lambda found: found.update({"/x": found["by_customer"]}),
    "a kind elsewhere": lambda found: found["orders"]["delta_versions"].update({"../../x/y": 0}),
    "an unknown kind": lambda found: found["orders"]["delta_versions"].update({"x": 0}),
    "SQL as a delta version": lambda found: found["orders"]["delta_versions"].update(
        {"content": "0; DROP TABLE x"}
    ),
    "figures of other types": lambda found: found["orders"].update({"folded": "1"}),
    "figures that are none": lambda found: found.update({"orders": 3}),
}
