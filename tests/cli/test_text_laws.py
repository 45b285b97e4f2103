"""What a text is in each type: a value that Python reads of it exactly, or it is refused."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaproduce.cli.inputs.reading.faults import Unfit
from deltaproduce.cli.inputs.reading.texts import Forms, converted
from deltaproduce.cli.inputs.reading.time_forms import form_of
from deltaproduce.cli.inputs.reading.times import instants
from deltaproduce.types import data_types as t

REFUSED = object()
PARIS = ZoneInfo("Europe/Paris")
WHOLE = {t.ByteType(): 7, t.ShortType(): 15, t.IntegerType(): 31, t.LongType(): 63}

digits = st.text("0123456789", max_size=25)
signs = st.sampled_from(["", "-", "+"])
numbers = st.builds(
    lambda sign, whole, point, exponent: sign + whole + point + exponent,
    signs,
    digits,
    st.just("") | digits.map(lambda some: f".{some}"),
    st.sampled_from(["", "e0", "E-2", "e+3", "e400", "e-400", "e", "e1.5"]),
)
odd = st.sampled_from(
    ["0x10", "1_0", "\u0661", "nan", "-Infinity", "inf", "", " ", "--1", "1 2", "1e5"]
)
paddings = st.sampled_from(["", " ", "\t", "  "])
number_texts = st.builds("{1}{0}{1}".format, numbers | odd | st.integers().map(str), paddings)


def as_whole(text, bits):
    plain = text.strip(" \t")
    if (
        not plain.isascii()
        or not plain.lstrip("+-").isdigit()
        or len(plain.lstrip("+-")) < len(plain) - 1
    ):
        return REFUSED
    value = int(plain)
    return value if -(2**bits) <= value < 2**bits else REFUSED


def as_number(text):
    """Return a text as a decimal; a word that is no number stays one."""
    plain = text.strip(" \t")
    if (
        plain.lower().lstrip("+-") in {"nan", "inf", "infinity"}
        and len(plain.lstrip("+-")) >= len(plain) - 1
    ):
        return plain
    if not plain.isascii() or "_" in plain or not plain:
        return REFUSED
    try:
        return Decimal(plain)
    except ArithmeticError:
        return REFUSED


def as_double(text, data_type):
    found = as_number(text)
    if isinstance(found, str):
        return float(found)
    if found is REFUSED:
        return REFUSED
    near = float(found)
    if isinstance(data_type, t.FloatType):
        near = nearest_float(found)
    return REFUSED if math.isinf(near) or (found and not near) else near


def nearest_float(value):
    """Return the nearest float of 32 bits, by its two neighbours; infinity beyond the largest."""
    if abs(value) >= 2**128 - 2**103:
        return math.inf
    try:
        middle = struct.unpack("f", struct.pack("f", float(value)))[0]
    except OverflowError:
        return math.inf
    (bits,) = struct.unpack("I", struct.pack("f", abs(middle)))
    near = [struct.unpack("f", struct.pack("I", n))[0] for n in (max(bits - 1, 0), bits, bits + 1)]
    near = [one for one in near if math.isfinite(one)]
    best = min(near, key=lambda one: (abs(Decimal(one) - abs(value)), struct.pack("f", one)[0] & 1))
    return math.copysign(best, middle)


def as_decimal(text, precision, scale):
    found = as_number(text)
    if isinstance(found, str) or found is REFUSED:
        return REFUSED
    if not found:
        return Decimal(0)
    if found.adjusted() >= precision - scale or found.adjusted() < -scale:
        return REFUSED
    _, figures, exponent = found.as_tuple()
    power = exponent + scale
    if power < 0 and int("".join(map(str, figures))) % 10**-power:
        return REFUSED
    return found


def checked(texts, data_type, oracle, forms=None):
    """Check that all texts become what the oracle says, or that one is refused that it refuses."""
    expected = [None if text is None else oracle(text) for text in texts]
    array = pa.array(texts, pa.string())
    if REFUSED in expected:
        with pytest.raises(Unfit) as error:
            converted(array, data_type, forms or Forms())
        assert expected[error.value.place] is REFUSED
        return
    found = converted(array, data_type, forms or Forms()).to_pylist()
    assert list(map(repr, found)) == list(map(repr, expected)) or found == expected


@given(st.lists(number_texts | st.none(), max_size=4), st.sampled_from(list(WHOLE.items())))
@example(["127", "-128"], (t.ByteType(), 7))
@example(["9223372036854775808"], (t.LongType(), 63))
def test_a_whole_number_is_its_digits(texts, kind):
    data_type, bits = kind
    checked(texts, data_type, lambda text: as_whole(text, bits))


@given(
    st.lists(number_texts | st.none(), max_size=4),
    st.sampled_from([(10, 2), (38, 38), (38, 0), (3, 3)]),
)
@example(["1.005"], (10, 2))
@example(["154"], (38, 38))
@example(["1.500", "0" * 60 + "1." + "0" * 60], (10, 2))
def test_a_decimal_keeps_all_its_digits(texts, digits):
    checked(texts, t.DecimalType(*digits), lambda text: as_decimal(text, *digits))


@given(
    st.lists(number_texts | st.floats().map(repr) | st.none(), max_size=4),
    st.sampled_from([t.DoubleType(), t.FloatType()]),
)
@example(["1e400"], t.DoubleType())
@example(["1e-400", "0e-400"], t.DoubleType())
@example(["1.000000178813934326171875001"], t.FloatType())
def test_a_float_is_the_nearest_in_its_range(texts, data_type):
    checked(texts, data_type, lambda text: as_double(text, data_type))


parts = st.tuples(st.integers(0, 10_001), st.integers(0, 13), st.integers(0, 32))
days = parts.map("{0[0]:04}-{0[1]:02}-{0[2]:02}".format) | st.dates().map(str)
clocks = st.sampled_from(
    [
        *("", "T10:00", " 00:00:00", "T23:59:59.123456", "T10:60", "T24:00", "T01:02:60", " 1:00"),
        *("T02:30:00", "T10:00:00.1", "T10:00:00.1234560", "T10:00:00.1234567", "t10:00", "T10"),
    ]
)
zones = st.sampled_from(
    ["", "Z", "+02:00", "-0730", " +05", "+18:00", "+18:01", "+01:60", "UTC", "z"]
)
time_texts = st.builds("{}{}{}".format, days, clocks, zones) | number_texts


def as_day(text):
    plain = text.strip(" \t")
    if len(plain) != 10 or (plain[4], plain[7]) != ("-", "-") or not plain.isascii():
        return REFUSED
    try:
        return date.fromisoformat(plain)
    except ValueError:
        return REFUSED


def as_moment(text, zone):
    """Return a text as a time of Python, by what Python reads of the forms that count."""
    plain = text.strip(" \t")
    day, clock = as_day(plain[:10]), plain[10:]
    if day is REFUSED:
        return REFUSED
    midnight = datetime.combine(day, datetime.min.time())
    if not clock:
        return in_utc(midnight, zone)
    if clock[0] not in "T " or len(clock) < 6 or clock[3] != ":":
        return REFUSED
    digits, _, fraction = clock[1:].partition(".")
    length = 8 if digits[5:6] == ":" else 5
    ends = 0
    if fraction:
        ends = len(fraction) - len(fraction.lstrip("0123456789"))
        if not ends or length != 8 or fraction[:ends][6:].strip("0"):
            return REFUSED
        rest, micros = fraction[ends:], int(fraction[:ends][:6].ljust(6, "0"))
    else:
        rest, micros = digits[length:], 0
    ahead = {"": None, "Z": 0, "+02:00": 120, "-0730": -450, " +05": 300, "+18:00": 1080}
    if rest not in ahead:
        return REFUSED
    try:
        hour, minute, *second = map(int, digits[:length].split(":"))
        found = midnight.replace(hour=hour, minute=minute, second=sum(second), microsecond=micros)
    except ValueError:
        return REFUSED
    return in_utc(found, zone if ahead[rest] is None else ahead[rest])


def in_utc(clock, zone):
    """Return a moment; it has to have a year from 1 to 9999 in UTC."""
    ahead = (
        timedelta(minutes=zone) if isinstance(zone, int) else clock.replace(tzinfo=zone).utcoffset()
    )
    try:
        return (clock - ahead).replace(tzinfo=UTC)
    except OverflowError:
        return REFUSED


@given(st.lists(time_texts | st.none(), max_size=3))
@example(["2026", "2026-02-29"])
@example(["0000-00-00"])
def test_a_date_is_a_whole_date(texts):
    checked(texts, t.DateType(), as_day)


@given(st.lists(time_texts | st.none(), max_size=3), st.sampled_from([UTC, PARIS]))
@example(["2026-03-29T02:30:00", "2026-10-25 02:30:00", "2050-07-01T00:00", "1850-01-01"], PARIS)
@example(["0001-01-01T00:00+02:00"], UTC)
def test_a_time_has_its_zone_or_is_on_the_clock(texts, zone):
    checked(texts, t.TimestampType(), lambda text: as_moment(text, zone), Forms(zone))


def test_a_time_without_a_zone_has_none():
    read = converted(pa.array(["2026-03-29T02:30:00"]), t.TimestampNTZType(), Forms(PARIS))
    assert read.to_pylist() == [datetime(2026, 3, 29, 2, 30)]
    with pytest.raises(Unfit, match="time zone"):
        converted(pa.array([None, "2026-03-29T02:30:00Z"]), t.TimestampNTZType(), Forms())


def test_local_times_that_clocks_skip_or_repeat_are_taken_as_spark_takes_them():
    """Expected values are those of Spark's ``to_timestamp`` in this zone."""
    clock = [datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30), datetime(1800, 1, 1)]
    micros = [(one - datetime(1970, 1, 1)) // timedelta(microseconds=1) for one in clock]
    found = instants(pa.array(micros).to_numpy(), PARIS).tolist()
    moments = [datetime(1970, 1, 1) + timedelta(microseconds=one) for one in found]
    assert moments[:2] == [datetime(2026, 3, 29, 1, 30), datetime(2026, 10, 25, 0, 30)]
    assert moments[2] == datetime(1799, 12, 31, 23, 50, 39)


FORMATS = [
    "%d.%m.%Y",
    "%Y%m%d",
    "%d-%b-%y",
    "%B %d, %Y",
    "%m/%d/%Y %I:%M %p",
    "%d.%m.%Y %H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S%z",
    "100%% %Y %m %d",
]


@given(st.sampled_from(FORMATS), st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)))
def test_a_form_reads_what_python_writes_in_it(text, time):
    time = time.replace(tzinfo=UTC)
    written = time.strftime(text)
    expected = datetime.strptime(written, text).replace(tzinfo=UTC)
    forms = Forms(times=form_of(text, of_times=True))
    read = converted(pa.array([written, None]), t.TimestampType(), forms).to_pylist()
    assert read == [expected, None]
    with pytest.raises(Unfit):
        converted(pa.array([written + "x"]), t.TimestampType(), forms)


@pytest.mark.parametrize(
    "text", ["dd.MM.yyyy", "%d.%m", "%d.%m.%Y %Y", "%d.%m.%Y %H", "%Q", "%d.%m.%Y%"]
)
def test_a_form_of_dates_has_each_part_of_a_date_once(text):
    with pytest.raises(ValueError, match=r"."):
        form_of(text, of_times=False)
