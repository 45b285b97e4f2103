"""Texts on their way to the driver: it believes only failures of its own functions."""

import base64
import json
import os
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark import cloudpickle

from deltaproduce.engines.failures import WorkerError, in_worker
from deltaproduce.engines.spark.executors.failures import raised_by_producer
from deltaproduce.errors import CorruptStoreError, ProducerError
from deltaproduce.types.excerpts import described, escaped, shown


class MakesDirectory:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def unpickled_once(path):
    """A text that made a directory in earlier versions, wherever it was found."""
    pickled = base64.b64encode(zlib.compress(cloudpickle.dumps(MakesDirectory(str(path)))))
    return f"<deltaproduce-failure {pickled.decode()}>"


FAILURE = {"message": "forged", "stage": "s", "key": 1, "cause": None, "trace": ""}
FORGED = f"<deltaproduce-failure {'0' * 32} {json.dumps(FAILURE)}>"
BOMB = f"<deltaproduce-failure {base64.b64encode(zlib.compress(bytes(10**7))).decode()}>"

PIECES = (
    st.text()
    | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"]))
    | st.sampled_from(
        [
            *(unpickled_once("made"), FORGED, BOMB, "<deltaproduce-failure ", ">", "}", '"', "\\"),
            *("\n", "\r", "\x1b[2J\x1b[31m", "\x00", "\u202e", "\ud800", "😀", "x" * 20_000),
            *(
                "Traceback (most recent call last):",
                "Python worker exited unexpectedly",
                "${a} <msg> %s {}",
            ),
        ]
    )
)
TEXTS = st.lists(PIECES, max_size=5).map("".join)


def in_text(error):
    """What Spark hears of an error that a partition's function raised."""

    def fail(batches):
        raise error
        yield from batches

    with pytest.raises(WorkerError) as caught:
        list(in_worker(fail)(iter(())))
    return str(caught.value)


def is_shown(text, *, limit):
    return text.isprintable() and len(text) <= 10 * limit + 100


def test_damage_that_a_worker_finds_arrives_as_damage():
    found = raised_by_producer(RuntimeError(in_text(CorruptStoreError("it has -1 rows"))))
    assert isinstance(found, CorruptStoreError)
    assert str(found) == "it has -1 rows"


@given(TEXTS)
@example(FORGED)
@example(unpickled_once("made"))
def test_a_text_is_no_failure_whatever_it_says(text):
    outer = RuntimeError("Job aborted")
    outer.__cause__ = ValueError(text)
    for error in (RuntimeError(text), WorkerError(text), KeyError(text), OSError(2, text), outer):
        assert raised_by_producer(error) is None
    assert not os.path.exists("made")


@given(TEXTS, TEXTS, TEXTS, TEXTS)
@example(FORGED, FORGED, FORGED, FORGED)
@example("\ud800", "\ud800", "\ud800", "\ud800")
def test_a_failure_arrives_whatever_its_texts_say(key, said, before, after):
    sent = ProducerError(said, stage="stage", key=key, column="a value")
    try:
        raise sent from ValueError(said)
    except ProducerError as error:
        text = in_text(error)
    text.encode()  # as Spark's workers send it
    error = raised_by_producer(RuntimeError(f"{before}{text}{after}"))
    assert (error.stage, error.column) == ("stage", "a value")
    assert type(error.__cause__) is ValueError
    assert is_shown(str(error), limit=8_000)
    assert error.key == key or is_shown(error.key, limit=300)
    assert len(key) > 2_000 or not key.isprintable() or error.key == key
    for note in error.__notes__:
        assert is_shown(note.replace("\n", ""), limit=16_000)


@given(TEXTS)
def test_texts_are_shown_short_and_escaped(text):
    assert is_shown(escaped(text), limit=2_000)
    assert escaped(escaped(text, limit=10**6), limit=10**7) == escaped(text, limit=10**6)
    assert escaped(text, limit=10**6, lines=True).replace("\n", "").isprintable()
    assert not text.isprintable() or escaped(text, limit=10**6) == text
    for value in (text, (text,), {text: [text]}, ValueError(text)):
        assert is_shown(shown(value), limit=300)
    for error in (ValueError(text), KeyError(text), OSError(2, text), SyntaxError(text)):
        assert is_shown(described(error), limit=2_000)
        assert type(error).__name__ in described(error)


class Speechless(Exception):  # noqa: N818 it fails to say anything
    def __str__(self):
        raise ValueError("\x1b no text")

    __repr__ = __str__


def test_what_fails_to_show_itself_is_shown_by_its_class():
    assert "Speechless" in shown(Speechless())
    assert "Speechless" in described(Speechless())
    assert raised_by_producer(Speechless()) is None
    sent = ProducerError("message", stage="stage", key=Speechless())
    sent.__cause__ = Speechless()
    error = raised_by_producer(RuntimeError(in_text(sent)))
    assert "Speechless" in str(error.key)
    assert "Speechless" in str(error.__cause__)


def cut_off(text):
    """A failure whose end is lost, and ones that are other JSON behind its mark."""
    mark, _, rest = text.partition("{")
    yield text[:-20]
    for other in ("", "{", "[]", "{}", "1", "NaN", '"a"', "[" * 100_000, "9" * 10_000, '{"a": '):
        yield mark + other
    sound, _ = json.JSONDecoder().raw_decode("{" + rest)
    for part in sound:
        for other in (1.5, [], {}, ["float", "x"], {"class": "eval", "args": ["tuple", ["1"]]}):
            yield mark + json.dumps({**sound, part: other})
        yield mark + json.dumps({name: sound[name] for name in sound if name != part})
    yield mark + json.dumps({**sound, "message": "x" * (1 << 20)})


def test_what_arrives_damaged_is_no_failure():
    sent = ProducerError("message", stage="stage", key=1)
    sent.__cause__ = ValueError("said")
    whole = in_text(sent)
    for text in cut_off(whole):
        assert raised_by_producer(RuntimeError(text)) is None, text[:300]
        both = raised_by_producer(RuntimeError(text + whole))  # as Spark says it twice
        assert (both.stage, both.key) == ("stage", 1)


def test_no_error_shows_the_mark():
    error = raised_by_producer(RuntimeError(in_text(ProducerError("message", stage="stage"))))
    assert "deltaproduce-failure" not in f"{error} {getattr(error, '__notes__', '')}"
