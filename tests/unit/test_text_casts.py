"""Casts of text to decimals, doubles and booleans equal a few lines of Python."""

import math
import random
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from expression_strategies import number_texts

from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.types.data_types import StringType

KINDS = ("decimal(10,2)", "decimal(38,0)", "decimal(38,38)", "decimal(1,1)", "double", "boolean")


def cast(text: str, texts: list[str | None]) -> list[Any]:
    term = analysed(Expression.read(text, ["s"]), {"s": StringType()})
    assert term is not None
    found: list[Any] = evaluated(term, pa.table({"s": pa.array(texts, pa.string())})).to_pylist()
    return found


def expected(text: str, kind: str) -> Any:
    """What a text is in a type; None if nothing."""
    if kind == "boolean":
        return {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(plain(text))
    if any(c in text for c in "_xXpP"):
        return None
    try:
        return as_double(plain(text)) if kind == "double" else as_decimal(text.strip(), kind)
    except (ValueError, InvalidOperation):
        return None


TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def plain(text: str) -> str:
    return text.strip().lower()


def as_double(text: str) -> float:
    if text[-1:] in {"f", "d"} and text not in {"inf", "+inf", "-inf"}:
        text = text[:-1]
        if text[-1:] in {"f", "d"}:
            raise ValueError
    return float(text)


def as_decimal(text: str, kind: str) -> Decimal | None:
    digits, places = map(int, kind[8:-1].split(","))
    value = Decimal(text)
    if not value.is_finite() or value.adjusted() >= 38:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=99))
    return rounded if abs(rounded) < 10 ** (digits - places) else None


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same, also zeros with signs and what is no number."""
    return repr(a) == repr(b) or (isinstance(a, Decimal) and bool(a == b))


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_what_python_reads_in_them(kind: str, long_run: bool) -> None:
    """Those that are nothing in a type are null in ``try_cast``, and fail in ``CAST``."""
    texts = [*number_texts(random.Random(3), 50_000 if long_run else 3_000)]
    found = cast(f"try_cast(s AS {kind})", [None, *texts])
    assert found[0] is None
    wanted = [expected(text, kind) for text in texts]
    differing = [t for t in zip(texts, found[1:], wanted, strict=True) if not same(*t[1:])]
    assert not differing
    fine = [text for text, value in zip(texts, wanted, strict=True) if value is not None]
    assert len(fine) > 50
    assert list(map(repr, cast(f"CAST(s AS {kind})", fine))) == [
        repr(value) for value in found[1:] if value is not None
    ]
    for text in failing(texts, wanted):
        with pytest.raises(EvaluationError):
            cast(f"CAST(s AS {kind})", [*fine[:3], text])


def failing(texts: list[str], wanted: list[Any]) -> Iterator[str]:
    """Some texts that are nothing."""
    found = [text for text, value in zip(texts, wanted, strict=True) if value is None]
    yield from random.Random(4).sample(found, 30)


HEXADECIMAL = {"0x1.8p1": 3.0, "-0X.8p-1d": -0.25, "0x1p99999": math.inf, "0x1": None}
SPECIAL = {"NaN": math.nan, "-NaN": math.nan, "-nan": None, " +INF ": math.inf, "1e400": math.inf}


def test_doubles_that_only_java_reads() -> None:
    some = HEXADECIMAL | SPECIAL
    found = cast("try_cast(s AS double)", [*some])
    assert all(map(same, found, some.values())), found


def test_decimals_name_what_is_wrong_with_them() -> None:
    """As Spark does: a text that is no number, one of too many digits, and one beyond a type."""
    for text, condition in (
        ("a", "CAST_INVALID_INPUT"),
        ("1e2147483648", "CAST_INVALID_INPUT"),
        ("1e38", "NUMERIC_OUT_OF_SUPPORTED_RANGE"),
        ("0e99", "NUMERIC_OUT_OF_SUPPORTED_RANGE"),
        ("1000", "NUMERIC_VALUE_OUT_OF_RANGE"),
    ):
        with pytest.raises(EvaluationError) as caught:
            cast("CAST(s AS decimal(5,2))", [text])
        assert caught.value.condition == condition, text
