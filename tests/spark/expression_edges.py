"""Expressions that are compared with Spark besides random ones: each function, over many types."""

from itertools import product

INTERVALS = [
    "INTERVAL '3' MONTH",
    "INTERVAL 90 DAYS",
    "INTERVAL '-1-2' YEAR TO MONTH",
    "INTERVAL 1 YEAR 2 MONTHS",
    "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "INTERVAL 1 DAY 2 HOURS",
    "INTERVAL '-1.5' SECOND",
    "INTERVAL '12:30' MINUTE TO SECOND",
    "INTERVAL '0' DAY",
    "INTERVAL '1' DAY * i",
    "INTERVAL '4' YEARS",
    "(t - v)",
    "(w - t)",
    "(CASE WHEN x THEN INTERVAL 1 DAY ELSE INTERVAL 2 HOUR END)",
]
MOVES = [
    *(f"{m} {s} {i}" for i in INTERVALS for m in ("t", "w") for s in "+-"),
    *(f"{i} + t" for i in INTERVALS[:4]),
    *(f"{i} > INTERVAL '1' MONTH" for i in INTERVALS[:4]),
    *(f"coalesce({i}, INTERVAL 1 SECOND) <= {i}" for i in INTERVALS[4:]),
    "-INTERVAL 1 DAY + t",
    "w - INTERVAL 1 WEEK",
    "w + (INTERVAL 1 DAY + INTERVAL 2 MINUTES)",
    "t - v = INTERVAL 3 DAYS",
    "CAST(t - v AS int)",
    "w - w > INTERVAL 1 DAY",
    "t + INTERVAL '100000' YEAR",
    "t + INTERVAL '50000000' YEAR",
    "w + INTERVAL '100000' YEAR",
    "w + INTERVAL '106751000' DAY",
    "date_add(t, 200000000) - v IS NULL",
    "t + (interval '1' month * 14)",
    "DATE '2012-02-29' + INTERVAL '1' YEAR",
    "TIMESTAMP '2013-03-31 02:30:00' - INTERVAL 100 MILLISECONDS",
]
"""Dates, timestamps and intervals, in any time zone."""

CLOCKS = [
    *("t + b", "b + t", "h + t", "t - h", "date_add(w, b)", "date_sub('2012-03-01', b)"),
    *("add_months(t, b)", "add_months(w, h)", "add_months(t, i)", "date_add(t, 3000000)"),
    *("months_between(t, v)", "months_between(w, t)", "months_between(t, w, x)"),
    *("last_day(w)", "last_day('2012-02-02')", "last_day(date_add(t, -2000000))"),
    *("next_day(t, 'mon')", "next_day(w, 'FRIDAY')", "next_day(t, s)"),
    *("datediff(w, t)", "datediff('2012-01-01', v)", "month(date_add(t, -2000000))"),
    *("hour(w)", "minute(w)", "second(w)", "hour(t)", "date_part('minute', w)"),
    *("EXTRACT(HOUR FROM w)", "EXTRACT(SECOND FROM w)", "EXTRACT(DOW FROM t)"),
    *("EXTRACT(DOY FROM w)", "EXTRACT(WEEK FROM w)", "date_part('secs', t)"),
    *("trunc(w, 'year')", "trunc(t, 'x')", "trunc('2012-03-04', 'mm')"),
    *(f"date_trunc('{unit}', w)" for unit in ("yyyy", "QUARTER", "mon", "week", "DD", "hour")),
    *(f"date_trunc('{unit}', w)" for unit in ("minute", "second", "millisecond", "x")),
    *(f"unix_{unit}(w)" for unit in ("seconds", "millis", "micros")),
    *(f"timestamp_{unit}({n})" for unit in ("seconds", "millis", "micros") for n in "il"),
    *(
        f"{name}(date_add(t, {n}))"
        for name in ("year", "month", "weekofyear", "dayofyear", "dayofweek", "last_day", "quarter")
        for n in ("300000000", "-20000000")
    ),
    *(f"trunc(date_add(t, 30000000), '{unit}')" for unit in ("year", "quarter", "week", "mm")),
    *("date_format(date_add(t, 30000000), 'yyyy-MM-dd HH')", "year(w + INTERVAL '40000' YEAR)"),
    *(
        "date_format(w + INTERVAL '40000' YEAR, 'yyyy-MM-dd HH:mm')",
        "hour(w + INTERVAL '40000' YEAR)",
    ),
    *("CAST(w + INTERVAL '40000' YEAR AS date)", "date_trunc('month', w + INTERVAL '40000' YEAR)"),
    *("unix_seconds(t)", "timestamp_seconds(b)"),
    *("from_utc_timestamp(w, 'America/Chicago')", "to_utc_timestamp(w, 'America/Chicago')"),
    *("to_date(from_utc_timestamp(w, 'Asia/Kathmandu'))", "from_utc_timestamp(t, '+05:30')"),
    *("to_utc_timestamp(w, 'Australia/Lord_Howe')", "from_utc_timestamp('2013-03-31', 'UTC')"),
    *(
        f"{name}(w + INTERVAL '{years}' YEAR, 'America/Chicago')"
        for name in ("from_utc_timestamp", "to_utc_timestamp")
        for years in (-200, 100, 40000, 291000)
    ),
    *("date_trunc('day', t)", "date_trunc('hour', w + INTERVAL 1 HOUR)"),
    *("CAST(t AS timestamp)", "w = t", "t < w", "coalesce(t, w)", "IF(x, t, w)", "t IN (w, v)"),
    *("w = '2013-03-31 01:30:00'", "w > '2013-03-31'", "w BETWEEN t AND v"),
    *("TIMESTAMP '2013-03-31 02:30:00'", "TIMESTAMP '2013-10-27 02:30:00.5'"),
    *("greatest(t, w)", "least(w, t, v)", "nullif(w, t)", "nvl2(i, t, v)"),
    *("CAST(date_add(t, 4000000) AS timestamp)", "date_add(t, -900000) + INTERVAL '1' HOUR"),
]
"""Functions of dates and timestamps, in any time zone."""

_DECIMALS = ["p", "q", "m", "n", "k", "r", "z"]
_NUMBERS = [*_DECIMALS, "i", "l", "5", "1.5"]
_PAIRS = [pair for pair in product(_NUMBERS, _NUMBERS) if {*pair} & {*_DECIMALS}]
DECIMALS = [
    *(f"{a} {sign} {b}" for sign in ("+", "-", "*", "/", "%", "div") for a, b in _PAIRS),
    *(f"{name}({a}, {b})" for name in ("pmod", "coalesce", "greatest") for a, b in _PAIRS),
    *(f"{a} {sign} {b}" for sign in ("=", "<") for a, b in _PAIRS),
    *(f"{name}({a})" for name in ("-", "abs", "negative") for a in _DECIMALS),
    *(
        f"CAST({a} AS {kind})"
        for a in (*_DECIMALS, "l")
        for kind in ("int", "bigint", "tinyint", "decimal(10,2)", "decimal(38,38)", "dec(5)")
    ),
    *("p * (1 - q) * (1 + q)", "100.00 * p / m", "p / 7.0", "m * m / (n + 1)", "-(m * m)"),
]
"""Decimals at the limits of precision."""

NUMBERS = [
    *(f"pmod({a}, {b})" for a, b in product("bhilfd", "bilfe")),
    *("mod(i, l)", "mod(p, q)", "CAST(d AS bigint)", "CAST(f AS bigint)", "CAST(d AS smallint)"),
    *(
        f"{name}({a}, {b})"
        for name in ("greatest", "least", "nullif")
        for a, b in product("bldf", "ief")
    ),
    *(
        f"{name}({a}{places})"
        for name in ("round", "bround", "ceil", "floor")
        for a in "bilpqmnkrz"
        for places in ("", ", 1", ", -1")
    ),
    *(f"{name}({a})" for name in ("ceil", "floor", "sign") for a in "fde"),
    *(
        "round(l, -18)",
        "bround(i, -9)",
        "round(m, -27)",
        "round(z, 29)",
        "ceil(z, 29)",
        "round(i, 2)",
    ),
    *(
        f"try_{name}({a}, {b})"
        for name in ("add", "subtract", "multiply", "divide", "mod")
        for a, b in ("bb", "ij", "ll", "hi", "pq", "mn", "dl", "zk", "fi", "nn")
    ),
    *(f"try_cast({a} AS {kind})" for a in "lfdpmzst" for kind in ("int", "tinyint", "date")),
    *(
        f"{cast}({s} AS {kind})"
        for cast in ("CAST", "try_cast")
        for s in ("s", "u", "replace(s, 'a', '1')", "u || s")
        for kind in ("decimal(10,2)", "decimal(38,0)", "decimal(38,38)", "double", "boolean")
    ),
    *("try_cast(s AS bigint)", "try_cast(m AS decimal(10,2))", "try_cast(i AS decimal(5,1))"),
    *("try_add(CAST(s AS int), 1)", "try_divide(i, l - l)"),
    *("greatest(s, u)", "least(s, u, 'b')", "greatest(x, y)", "nullif(s, u)", "nvl2(s, i, p)"),
]

_PLACES = ("i", "b", "0", "-2", "3", "2147483647")
TEXT = [
    *(f"{name}(s, {n})" for name in ("left", "right", "substring") for n in _PLACES),
    *("left(s, -2147483648)", "right(s, -2147483648)", "repeat(s, b)", "repeat(u, 2)"),
    *(f"substring(s, {a}, {b})" for a, b in product(_PLACES, _PLACES)),
    *(
        f"{name}(s, {n}{pad})"
        for name in ("lpad", "rpad")
        for n in "b036"
        for pad in ("", ", u", ", ''")
    ),
    *("SUBSTRING(s FROM 2 FOR 3)", "POSITION(u IN s)", "position('b', s)", "locate(u, s, b)"),
    *(f"locate({a}, s, {n})" for a in ("'a'", "''", "u") for n in ("0", "1", "2", "9", "i")),
    *("instr(s, 'b')", "instr(s, '')", "instr(s, u)"),
    *(
        f"{name}(s, {a})"
        for name in ("startswith", "endswith", "contains")
        for a in ("u", "''", "'a'")
    ),
    *(
        f"substring_index(s, {a}, {n})"
        for a in ("'a'", "''", "u", "'aa'")
        for n in ("1", "-1", "2", "b")
    ),
    *("substring_index('aaaa', 'aa', 2)", "substring_index('aaaa', 'aa', -2)"),
    *("substring_index('www.a.org', '.', 2)", "substring_index('www.a.org', '.', -2)"),
    *("replace(s, 'a')", "replace(s, 'a', 'bb')", "replace(s, '', 'x')", "replace(s, u, s)"),
    *("translate(s, 'ab', 'b')", "translate(s, u, 'xyz')", "translate(s, 'aA', u)"),
    *("reverse(s)", "reverse(u || 'ab')", "ascii(s)", "octet_length(s)", "char_length(i)"),
    *("trim(BOTH 'a ' FROM s)", "trim(LEADING u FROM s)", "trim(TRAILING FROM s)", "trim(u, s)"),
    *("ltrim('a', s)", "rtrim(' ', s)", "ltrim(s)", "trim(i)", "trim(BOTH '' FROM s)"),
    *("concat(s, i, x, t)", "s || i", "concat_ws(u, s, 'a', i)", "concat_ws('', s, NULL, u)"),
    *("concat_ws(NULL, s, u)", "concat(s, NULL)", "concat()", "concat_ws('a')"),
    *(f"CAST({a} AS string)" for a in "pqmnkrz"),
    *("CAST(date_add(t, 9) AS string)", "CAST(date_add(t, -900000) AS string)", "t || s"),
    *("CAST(date_add(t, 300000000) AS string)", "p || s", "length(-(k))", "left(m, 3)"),
    *("lower(s)", "upper(s)", "lcase(i)", "ucase(u || s)", "initcap(s || ' x')"),
    *("md5(s)", "sha1(s)", "sha(s)", "crc32(s)", "sha2(s, i)"),
    *(f"sha2(s, {bits})" for bits in (0, 1, 224, 256, 384, 512)),
]
"""Functions of text."""

NESTED = [
    *("size(a)", "cardinality(g)", "array_size(c)", "size(o.a)", "array_contains(a, i)"),
    *("array_contains(a, b)", "array_contains(c, s)", "array_contains(c, 'a')", "size(NULL)"),
    *("array_contains(a, l)", "array_contains(a, NULL)", "array_contains(o.a, t)"),
    *(f"element_at(a, {n})" for n in ("1", "-1", "3", "0", "b", "h")),
    *("element_at(g, 'a')", "element_at(g, s)", "g['b']", "g[u]", "get(a, 1)", "get(c, i)"),
    *("a[0]", "c[1]", "a[b]", "o.f", "o.g.h", "o.G.H", "O.f + 1", "o.a[0]", "(o).g.h", "o.g"),
    *("sort_array(a)", "sort_array(c, FALSE)", "sort_array(c, TRUE)", "array_sort(a)"),
    *("array_sort(c)", "array_min(a)", "array_max(a)", "array_min(c)", "array_max(o.a)"),
    *("sort_array(o.a)[0]", "coalesce(element_at(c, 1), s)", "o.a", "o.g.h || 'a'"),
    *("array(i, j, b)", "array(s)", "array(p, i)", "array(t, w)", "array(t, '2013-03-15')"),
    *(
        "array(NULL, i)",
        "array(a, array(i))",
        "(array(o))[0].g.h",
        "(array(f, d))[1]",
        "array(i, s)",
    ),
    *("(array(i + 1, j))[b]", "sort_array(array(i, j, h))", "array_contains(array(s, u), 'a')"),
    *("struct(i, s, l + 1)", "named_struct('p', p, 'q', o)", "struct(o.f, o.g).f"),
    *("struct(i, j).j", "struct(array(i, j), map('k', s))", "named_struct('x', 1).X"),
    *("named_struct('x', 1, 'X', 2)", "struct(NULL)", "struct(w, v, x)", "struct(t, m)"),
    *("map('a', i, 'b', l)", "map(s, i)", "map(s, i, u, j)", "map(i, s, j, u)", "map(t, g)"),
    *("map('a', i)['a']", "map_from_arrays(a, a)", "map_from_arrays(c, array(i, j, l, b, h, 1))"),
    *("map_from_arrays(array(s, u), array(i, j))", "map_from_arrays(array(s), a)[s]", "map(i)"),
    *("size(map(i, 1, h, 2))", "map('a', NULL)", "map(o.g, 1)", "CASE WHEN x THEN array(i) END"),
    *("get(a, size(a) - 1)", "CASE WHEN x THEN a ELSE NULL END", "a IS NULL", "upper(o.g.h)"),
]
"""Arrays, maps and structs."""
