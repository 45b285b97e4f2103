"""Arithmetic of decimals on the driver, against Python's."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from random import Random

import pyarrow as pa
import pytest

from deltaproduce.stages.sql.expressions.kernels import decimals
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError

TYPES = [(5, 2), (9, 0), (15, 2), (18, 4), (18, 18), (20, 3), (38, 10)]
KERNELS = {
    "+": (decimals.added, Decimal.__add__),
    "-": (decimals.subtracted, Decimal.__sub__),
    "*": (decimals.multiplied, Decimal.__mul__),
}


def some(random: Random, kind: pa.Decimal128Type, *, null: float) -> list[Decimal | None]:
    """Values of a type: small ones, those with all digits, and the ends of 64 bits."""
    found = list[Decimal | None]()
    for _ in range(random.choice((1, 3, 8))):
        digits = random.choice((1, kind.precision // 2, kind.precision))
        number = random.choice((random.randrange(10**digits), 10**digits - 1, 2**63 - 1, 2**63))
        if number >= 10**kind.precision:
            number = 10**kind.precision - 1
        value = Decimal(random.choice((1, -1)) * number).scaleb(-kind.scale, Context(prec=60))
        found.append(None if random.random() < null else value)
    return found


@pytest.mark.parametrize("sign", KERNELS)
def test_results_are_exact_and_rounded_half_up(sign: str) -> None:
    """By 64 bits where all fit, and otherwise: the same values, nulls and errors."""
    kernel, exactly = KERNELS[sign]
    random, failures, short = Random(sign), 0, 0
    for _ in range(1500):
        one, other = (pa.decimal128(*random.choice(TYPES)) for _ in range(2))
        wanted = pa.decimal128(*random.choice([*TYPES, (38, 4), (31, 4), (38, 6)]))
        null = random.choice((0, 0.3))
        values = [some(random, kind, null=null) for kind in (one, other)]
        rows = min(map(len, values))
        ones, others = (
            pa.array([None, *v[:rows]], kind).slice(1)
            for v, kind in zip(values, (one, other), strict=True)
        )
        unit = Decimal(1).scaleb(-wanted.scale)
        with localcontext(Context(prec=160)):
            pairs = zip(ones.to_pylist(), others.to_pylist(), strict=True)
            results = [
                None if a is None or b is None else exactly(a, b).quantize(unit, ROUND_HALF_UP)
                for a, b in pairs
            ]
            most = Decimal(10**wanted.precision).scaleb(-wanted.scale)
            fits = all(value is None or abs(value) < most for value in results)
        if not fits:
            failures += 1
            with pytest.raises(EvaluationError):
                kernel(wanted, ones, others)
            continue
        short += wanted.scale == (one.scale + other.scale if sign == "*" else wanted.scale)
        found = kernel(wanted, ones, others)
        assert found.type == wanted
        assert found.to_pylist() == results
    assert failures > 50
    assert short > 50


def test_digits_after_the_point_are_rounded_or_cut_off_exactly() -> None:
    """Arrow's division of decimals fails next to powers of two with many zeros behind them."""
    random = Random("digits")
    for _ in range(1500):
        kind = pa.decimal128(37, random.choice((4, 15, 18, 20, 30)))
        wanted = pa.decimal128(38, random.randrange(kind.scale))
        values = list[Decimal | None]()
        for _ in range(random.choice((1, 2, 5))):
            number = random.choice((2**31, 2**32, 2**63, 2**64)) + random.choice((0, -1, 1, -475))
            number = number * 10 ** random.randrange(17) + random.choice((0, 1, -1, 500))
            number = random.choice((number, random.randrange(10**18), 5 * 10**17))
            scaled = Decimal(number).scaleb(-kind.scale, Context(prec=60))
            values.append(random.choice((scaled, -scaled, None)))
        array = pa.array(values, kind)
        unit, most = Decimal(1).scaleb(-wanted.scale), Decimal(10) ** (38 - wanted.scale)
        with localcontext(Context(prec=160)):
            near = [v if v is None else v.quantize(unit, ROUND_HALF_UP) for v in values]
            near = [None if v is None or abs(v) >= most else v for v in near]
        assert decimals.fitted(wanted, array).to_pylist() == near
        whole = [None if value is None else int(value) for value in values]
        assert decimals.truncated(array).to_pylist() == whole
