"""A small pipeline with composite keys, whose second stage feeds two others."""

from collections.abc import Iterator
from typing import Any

from deltaproduce import Pipeline

text = Pipeline("text")
lines = text.source("lines", key="file string, number int", value="words string")


@text.producer(lines, key="word string", value="file string")
def words(key: Any, values: Iterator[str]) -> Iterator[Any]:
    for line in values:
        for word in line.split():
            yield word, key.file


@text.producer(words, key="length int desc, first string", value="word string")
def shapes(word: str, files: Iterator[str]) -> Iterator[Any]:
    if len(word) > 1:
        yield {"length": len(word), "first": word[0]}, word


@text.producer(words, key="file string", value="word string")
def by_file(word: str, files: Iterator[str]) -> Iterator[Any]:
    for file in set(files):
        yield file, word
