"""A record index whose own table is damaged: methods say so in one line, and build() mends it."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltaproduce as dp


def opened(place: Path) -> dp.RecordIndex:
    return dp.RecordIndex(None, str(place / "t"), "k", str(place / "i"))


def commits(place: Path) -> list[Path]:
    return sorted((place / "i" / "_delta_log").glob("*.json"))


def cut(place: Path) -> None:
    commits(place)[0].unlink()


def cut_in_the_middle(place: Path) -> None:
    commits(place)[1].unlink()


def garbage(place: Path) -> None:
    commits(place)[-1].write_text("garbage\n")


def all_garbage(place: Path) -> None:
    for commit in commits(place):
        commit.write_text("garbage\n")


def rows_deleted(place: Path) -> None:
    DeltaTable(str(place / "i")).delete("_run IS NULL")


def entries_deleted(place: Path) -> None:
    DeltaTable(str(place / "i")).delete()


def files_gone(place: Path) -> None:
    for path in (place / "i").glob("*.parquet"):
        path.unlink()


def told_nothing(place: Path) -> None:
    """Every commit is there, and none says what the index was built with."""
    for commit in commits(place):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        kept = [line for line in lines if "commitInfo" not in line]
        commit.write_text("\n".join(map(json.dumps, kept)) + "\n")


DAMAGES = [
    cut,
    cut_in_the_middle,
    garbage,
    all_garbage,
    rows_deleted,
    entries_deleted,
    files_gone,
    told_nothing,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_opens_says_so_and_is_built_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    index = opened(tmp_path)
    index.build()
    index.upsert([{"k": 4, "v": "d"}])
    index.delete([2])
    damage(tmp_path)
    again = opened(tmp_path)
    for method in (
        again.compact,
        again.rebuild,
        again.verify,
        again.stats,
        lambda: again.lookup([1]),
        lambda: again.upsert([{"k": 1, "v": "x"}]),
        lambda: again.delete([1]),
    ):
        if damage is files_gone and method == again.stats:
            continue  # it reads only the directory of file groups, which is gone, too
        with pytest.raises(dp.CorruptStoreError, match="build it again") as refused:
            method()
        assert "\n" not in str(refused.value)
        assert r"\n" not in str(refused.value)
        assert "<unknown>" not in str(refused.value)
        assert refused.value.table == str(tmp_path / "i")
    again.build()
    for healthy in (again, opened(tmp_path)):
        assert healthy.verify() == ()
        assert healthy.stats().records == 3
        assert healthy.lookup([1, 2, 4]).column("k").to_pylist() == [1, 4]
    assert again.upsert([{"k": 1, "v": "x"}, {"k": 5, "v": "e"}]).inserted == 1
    named = pa.table(DeltaTable(str(tmp_path / "i")).get_add_actions()).column("path").to_pylist()
    assert {*named} <= {path.name for path in (tmp_path / "i").glob("*.parquet")}


def test_a_damaged_table_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"k": [1]}))
    write_deltalake(str(tmp_path / "i"), pa.table({"x": [1]}))
    (commit,) = commits(tmp_path)
    commit.write_text("garbage\n")
    index, before = opened(tmp_path), {path.name for path in (tmp_path / "i").rglob("*")}
    with pytest.raises(dp.DefinitionError, match="not a record index"):
        index.build()
    assert commit.read_text() == "garbage\n"
    assert {path.name for path in (tmp_path / "i").rglob("*")} == before


def test_a_build_that_stops_while_it_mends_is_done_by_the_next(tmp_path: Path) -> None:
    from deltaproduce.storage import failpoints

    class CrashError(Exception):
        pass

    for point in range(30):
        place = tmp_path / str(point)
        write_deltalake(str(place / "t"), pa.table({"k": [1, 2, 3]}))
        opened(place).build()
        all_garbage(place)
        reached: list[str] = []

        def crash(
            when: str, name: str, _: str, point: int = point, seen: list[str] = reached
        ) -> None:
            seen.append(name)
            if len(seen) > point:
                raise CrashError

        try:
            with failpoints.armed(crash):
                opened(place).build()
        except CrashError:
            opened(place).build()
        else:
            assert "remove" in reached
            return
        assert opened(place).verify() == ()
        assert opened(place).stats().records == 3
    raise AssertionError("there are more effects")
