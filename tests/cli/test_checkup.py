"""Tests of `doctor`: its findings on a machine and a project, each with its fix."""

import os
import sys
from pathlib import Path

import pytest

from deltaproduce.cli.examination import checkup


@pytest.mark.parametrize(
    ("said", "state", "found"),
    [
        ('openjdk version "17.0.13" 2024-10-15', "ok", "17"),
        ('java version "21" 2023-09-19 LTS', "ok", "21"),
        ('java version "1.8.0_431"', "failed", "8"),
        ("The operation couldn't be completed.", "failed", "The operation couldn't be completed."),
        (None, "failed", "not there"),
    ],
)
def test_java(said, state, found):
    check = checkup.java(said)
    assert (check.state, check.found) == (state, found)
    assert ("Java 17" in check.mend) == (state == "failed")


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10), "failed"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "failed")],
)
def test_python(version, state):
    assert checkup.python(version).state == state


def test_packages(monkeypatch):
    assert checkup.package("pyarrow").state == "ok"
    assert checkup.package("nothing-such").state == "failed"
    monkeypatch.setattr(checkup, "version", lambda name: "1.0")
    found = checkup.package("pyarrow")
    assert (found.state, found.found) == ("failed", "1.0")
    assert found.mend.startswith("pip install 'pyarrow")


def test_jars(tmp_path, monkeypatch):
    monkeypatch.setattr(checkup, "version", lambda name: "4.4.0")
    assert "the first session downloads it" in checkup.jars((tmp_path,)).found
    jar = tmp_path / "jars" / "io.delta_delta-spark_4.2_2.13-4.4.0.jar"
    jar.parent.mkdir()
    jar.touch()
    assert checkup.jars((tmp_path,)).found == str(jar)
    monkeypatch.setattr(checkup, "version", lambda name: "4.4.1")
    assert str(jar) not in checkup.jars((tmp_path,)).found


def test_the_python_of_workers(monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert checkup.worker().state == "ok"
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert (checkup.worker().state, "PYSPARK_PYTHON" in checkup.worker().mend) == ("failed", True)


def test_rights(tmp_path, monkeypatch):
    assert "will be made" in checkup.rights(str(tmp_path / "a" / "b")).found
    assert "can be written" in checkup.rights(str(tmp_path)).found
    (tmp_path / "file").touch()
    assert checkup.rights(str(tmp_path / "file" / "store")).state == "failed"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert checkup.rights(str(tmp_path / "a")).state == "failed"


def test_without_java_a_local_project_is_well(project, asked, monkeypatch):
    monkeypatch.setattr(checkup, "_java_says", lambda: None)
    found = {one["name"]: one for one in asked("doctor")}
    assert found["Java"]["state"] == "not needed"
    assert {one["state"] for one in found.values()} == {"ok", "not needed"}
    assert found["inputs"]["found"] == "2 can be read"
    file = project / "deltaproduce.toml"
    file.write_text(file.read_text().replace('engine = "local"', 'engine = "spark"'))
    found = {one["name"]: one for one in asked("doctor", code=1)}
    assert (found["Java"]["state"], found["store"]["state"]) == ("failed", "ok")


def test_what_is_wrong_with_a_project_is_said(project, asked):
    (project / "data" / "customers.csv").unlink()
    found = {one["name"]: one for one in asked("doctor", code=1)}
    assert "customers.csv" in found["inputs"]["mend"]
    (project / "pipeline.py").write_text("1 +")
    del sys.modules["pipeline"]  # a command of its own process has it not yet
    found = {one["name"]: one for one in asked("doctor", code=1)}
    assert "pipeline.py:1" in found["pipeline"]["mend"]
    (project / "deltaproduce.toml").unlink()
    found = {one["name"]: one for one in asked("doctor", code=1)}
    assert found["project file"]["state"] == "failed"
    assert "pipeline" not in found
