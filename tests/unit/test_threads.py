"""Work in threads that the process keeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from deltaproduce.engines.local.large.threads import beside, side_by_side


def test_results_come_in_the_order_of_the_parts() -> None:
    """No part is taken long before it can be worked on, and two are worked on at once."""
    taken, together = list[int](), threading.Barrier(2, timeout=20)

    def parts() -> Iterator[int]:
        for number in range(8):
            taken.append(number)
            yield number

    def made(number: int) -> int:
        together.wait()
        return 10 * number

    for place, result in enumerate(side_by_side(made, parts(), 2)):
        assert result == 10 * place
        assert len(taken) == min(place + 3, 8)
    with pytest.raises(ZeroDivisionError):
        [*side_by_side(lambda number: 1 // (2 - number), range(9), 2)]


def test_a_single_part_is_processed_in_the_thread_of_the_caller() -> None:
    """So are all parts, with one thread."""
    here = threading.get_ident()
    for parts, threads in (([1], 4), ([1, 2, 3], 1)):
        assert {*side_by_side(lambda _: threading.get_ident(), parts, threads)} == {here}
    assert here not in {*side_by_side(lambda _: threading.get_ident(), [1, 2], 2)}


def test_work_may_begin_other_work() -> None:
    """Each waits for what it has begun."""

    def depth(left: int) -> int:
        return 1 + max(side_by_side(depth, [left - 1] * 2, 2)) if left else 0

    assert depth(5) == 5


def test_threads_are_kept() -> None:
    """Many calls one after the other start few."""
    [*side_by_side(lambda _: time.sleep(0.001), [1, 2], 2)]
    count = threading.active_count()
    for _ in range(100):
        [*side_by_side(lambda _: time.sleep(0.001), [1, 2], 2)]
    assert threading.active_count() <= count + 2


def test_nothing_is_at_work_when_the_caller_goes_on() -> None:
    """Neither after an error, nor after the first results are all that is wanted."""
    working, lock = set[int](), threading.Lock()

    def slow(number: int) -> int:
        with lock:
            working.add(number)
        time.sleep(0.05)
        with lock:
            working.discard(number)
        if number == 1:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="1"):
        [*side_by_side(slow, range(9), 4)]
    assert not working
    results = side_by_side(slow, range(2, 9), 4)
    assert next(results) == 2
    results.close()
    assert not working
    with pytest.raises(RuntimeError, match="caller"), beside(slow, 5) as future:
        raise RuntimeError("the caller's")
    assert future.done()
    assert not working
