"""A log is listed only where its commits are read: it has a file for each commit ever made."""

from __future__ import annotations

from pathlib import Path

import pytest

import deltaproduce as dp
from deltaproduce.engines.file_systems.this_machine import ThisMachine

KEYS = 30_000
"""More, so that a step replaces rows of the content, and merges are due."""


def test_a_version_lists_no_log_of_a_table_that_it_adds_to_or_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, names = list[str](), ThisMachine.names

    def noted(system: ThisMachine, path: str) -> list[str]:
        listed.append(path)
        return names(system, path)

    pipeline = dp.Pipeline("seldom")
    orders = pipeline.source("orders", key="k int", value="n int")
    pipeline.aggregate("sums", orders, key="n", values={"rows": dp.agg.count()})
    with dp.Store(None, tmp_path, pipeline, limits=dp.Limits(merged_commits=3)) as store:
        store.update({"orders": [{"k": k, "n": k % 7} for k in range(KEYS)]})
        for number in range(10):  # compactions are due meanwhile, and over
            store.update({"orders": [{"k": k, "n": number} for k in range(number)]})
            store.wait()
        monkeypatch.setattr(ThisMachine, "names", noted)
        version = store.update({"orders": [{"k": 1, "n": -1}]})
    assert {name: one.mode for name, one in version.stages.items()}["orders"] == "seek"
    of_tables = [path for path in listed if "/orders/" in path or "/sums/" in path]
    assert of_tables in ([], [f"{tmp_path}/sums/content/_delta_log"])  # it is small, and rewritten
