"""Locations: what a text names, and that a relative path is made whole once."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import DefinitionError
from deltaproduce.locations import Location, Table, is_relative


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path.cwd()


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("lake/library", "lake/library"),
        ("./lake", "lake"),
        ("lake/", "lake"),
        ("lake//library/", "lake/library"),
        ("lake/./other/../library", "lake/library"),
        ("./", "."),
        (".", "."),
        ("..", ".."),
        ("../lake", "../lake"),
        ("~/lake", "~/lake"),
        (" lake /x ", " lake /x "),
    ],
)
def test_a_relative_path_is_one_of_the_current_directory(here: Path, text: str, below: str) -> None:
    whole = os.path.abspath(here / below)
    assert is_relative(text)
    assert Location.parse(text) == Location(whole, in_catalog=False)
    assert Table.existing(text) == Table(whole, whole, in_catalog=False)


def test_a_location_stays_where_it_was(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = Location.parse("lake/library")
    monkeypatch.chdir("/")
    assert location.table("words", "content").address == f"{here}/lake/library/words/content"
    assert Location.parse(location.address) == location


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/lake/library", "/lake/library"),
        ("/lake/library/", "/lake/library"),
        ("/lake/x/../library/.", "/lake/library"),
        ("/", "/"),
        ("s3a://bucket/lake/../x", "s3a://bucket/lake/../x"),
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
        ("file:/lake", "file:/lake"),
        ("dbfs:/lake", "dbfs:/lake"),
    ],
)
def test_a_whole_path_needs_no_directory(text: str, address: str) -> None:
    assert not is_relative(text)
    assert Location.parse(text) == Location(address, in_catalog=False)
    assert Table.existing(text).address == address


@pytest.mark.parametrize(
    ("text", "address"), [("lake", "`lake`"), ("main.lake", "`main`.`lake`"), ("`lake`", "`lake`")]
)
def test_without_a_slash_it_is_a_schema(text: str, address: str) -> None:
    assert not is_relative(text)
    assert Location.parse(text) == Location(address, in_catalog=True)


@pytest.mark.parametrize("text", ["", "a.b.c", "a.", ".a"])
def test_some_texts_are_no_location(text: str) -> None:
    with pytest.raises(DefinitionError):
        Location.parse(text)


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1).map("./{}".format))
def test_parsing_what_was_parsed_changes_nothing(text: str) -> None:
    location = Location.parse(text)
    assert os.path.isabs(location.address)
    assert Location.parse(location.address) == location
    table = Table.existing(text)
    assert Table.existing(table.name) == table
