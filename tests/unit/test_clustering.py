"""The partitions by which content is stored, and the ends of its files."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.model.clustering import clusterings, file_ends


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_a_file_has_one_large_partition_or_some_small_ones(counts: list[int], least: int) -> None:
    """And no more small ones than are needed, unless a large one or the end comes first."""
    ends = file_ends(np.array(counts), least).tolist()
    assert ends == sorted(set(ends))
    assert ends[-1] == len(counts) - 1
    for first, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        file = counts[first : end + 1]
        assert len(file) == 1 or max(file) < least
        assert sum(file[:-1]) < least
        following = counts[end + 1 : end + 2]
        assert sum(file) >= least or not following or following[0] >= least


def test_it_goes_by_the_column_of_most_windows_and_the_shortest_step() -> None:
    pipeline = dp.Pipeline("site")
    key = "id int, day date"
    one, other = (pipeline.source(name, key=key, value="m int") for name in ("one", "other"))
    bare = pipeline.source("bare", key=key, value="m int")
    pipeline.aggregate("plain", bare, key="m", values={"n": agg.count()})

    def windowed(name: str, feeder: object, window: dp.Window) -> None:
        values = {"n": agg.count()}
        pipeline.aggregate(name, feeder, key="m", values=values, window=window)

    windowed("ids", one, dp.window("id", last=1))
    windowed("months", dp.merge(one, other), dp.window("day", last=1, step="month"))
    windowed("weeks", one, dp.window("day", last=1, step="week"))
    windowed("tens", other, dp.window("id", last=1, step=10))
    found = clusterings(pipeline.graph(), "UTC")
    told = {name: (by.column.name, by.partitions.step) for name, by in found.items()}
    assert told == {"one": ("day", "week"), "other": ("day", "month")}
    assert {by.partitions.zone for by in found.values()} == {"UTC"}
    assert [c.name for c in found["one"].order(one.schema.key.columns)] == ["day", "id"]


def test_it_goes_by_the_days_of_the_first_window() -> None:
    """Of its place, or of the store; the shortest step may be another window's."""
    pipeline = dp.Pipeline("site")
    key = "at timestamp, id int"
    one, other = (pipeline.source(name, key=key, value="m int") for name in ("one", "other"))
    zones = (None, "Asia/Kathmandu", "America/Chicago")
    windows = [dp.window("at", last=1, step="week", zone=zone) for zone in zones]
    windows.append(dp.window("at", last=1, zone="UTC"))
    for number, window in enumerate(windows):
        feeder = dp.merge(one, other) if number else one
        pipeline.aggregate(f"w{number}", feeder, key="m", values={"n": agg.count()}, window=window)
    found = clusterings(pipeline.graph(), "Europe/Paris")
    told = {name: (by.partitions.step, by.partitions.zone) for name, by in found.items()}
    assert told == {"one": ("day", "Europe/Paris"), "other": ("day", "Asia/Kathmandu")}
