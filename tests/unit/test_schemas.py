import contextlib
import pickle
import re
from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.errors import DefinitionError
from deltaproduce.types import data_types as T  # noqa: N812 (Spark's own convention)
from deltaproduce.types.columns import Column, Columns, existing_schema, row_schema, with_nulls
from deltaproduce.types.data_types import StructField, StructType
from deltaproduce.types.ddl import sql_of

KEY_TYPES = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "byte": T.ByteType(),
    "smallint": T.ShortType(),
    "short": T.ShortType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "long": T.LongType(),
    "decimal": T.DecimalType(10, 0),
    "decimal(5)": T.DecimalType(5, 0),
    "dec(12, 2)": T.DecimalType(12, 2),
    "numeric(38,38)": T.DecimalType(38, 38),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ltz": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
}
VALUE_TYPES = KEY_TYPES | {
    "float": T.FloatType(),
    "real": T.FloatType(),
    "double": T.DoubleType(),
    "array<int>": T.ArrayType(T.IntegerType()),
    "map<string, array<double>>": T.MapType(T.StringType(), T.ArrayType(T.DoubleType())),
    "struct<a: int, b string not null comment 'x', `c``d`:date>": StructType(
        [
            StructField("a", T.IntegerType()),
            StructField("b", T.StringType(), nullable=False),
            StructField("c`d", T.DateType()),
        ]
    ),
    "array<struct<m:map<struct<a:int>,array<array<dec(3,1)>>>>>": T.ArrayType(
        StructType(
            [
                StructField(
                    "m",
                    T.MapType(
                        StructType([StructField("a", T.IntegerType())]),
                        T.ArrayType(T.ArrayType(T.DecimalType(3, 1))),
                    ),
                )
            ]
        )
    ),
}


def key_of(key) -> Columns:
    return row_schema(key, "other int", stage="totals").key


def value_of(value) -> Columns:
    return row_schema("other int", value, stage="totals").value


def refused(key, value) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        row_schema(key, value, stage="totals")
    assert caught.value.stage == "totals"
    assert "\x1b" not in str(caught.value)
    return caught.value


# Values


def test_columns_in_all_their_forms():
    schema = row_schema("id bigint NOT NULL, day date desc", "net_total int", stage="totals")
    assert schema.names == ("id", "day", "net_total")
    assert len(schema.key) == 2
    assert list(schema.key) == [
        Column("id", T.LongType(), nullable=False),
        Column("day", T.DateType(), descending=True),
    ]
    assert schema.key.ddl == "id bigint NOT NULL, day date DESC"


def test_struct_is_nullable_throughout_for_delete_rows():
    assert value_of("a int NOT NULL, b string").struct == StructType(
        [StructField("a", T.IntegerType()), StructField("b", T.StringType())]
    )


def test_values_are_hashable_and_picklable():
    schema = row_schema("id bigint desc", "a struct<b: int>", stage="totals")
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert len({schema, row_schema("id long DESC", "a struct<b int>", stage="other")}) == 1


# DDL


@pytest.mark.parametrize(("text", "data_type"), VALUE_TYPES.items())
def test_value_types(text, data_type):
    assert list(value_of(f"a {text}")) == [Column("a", data_type)]
    assert type(value_of(f"a {text}".upper()).struct.fields[0].dataType) is type(data_type)


@pytest.mark.parametrize("data_type", VALUE_TYPES.values(), ids=str)
def test_a_type_in_a_statement_is_the_same_whatever_the_session_says(data_type):
    """The word timestamp alone may mean another type; a field may be called so.

    And its parts may be null: Spark casts nothing to a type that says otherwise.
    """
    struct = StructType([StructField("timestamp", data_type), StructField("at", data_type)])
    of_keys = T.MapType(T.TimestampType(), data_type)
    for one in (data_type, T.ArrayType(data_type), of_keys, struct):
        text = sql_of(one)
        (column,) = value_of(f"a {text}")
        assert column.data_type == with_nulls(one)
        assert not re.search(r"\btimestamp\b(?!`?:)", text)


@pytest.mark.parametrize(("text", "data_type"), KEY_TYPES.items())
def test_key_types(text, data_type):
    assert list(key_of(f"a {text} desc")) == [Column("a", data_type, descending=True)]


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("desc bigint", ["desc"]),
        ("`desc` bigint", ["desc"]),
        ("asc int desc, desc int asc", ["asc", "desc"]),
        ("select int, table int, primary int, constraint int, unique int, like int", None),
        ("date date, timestamp timestamp, array int, map int, decimal decimal", None),
        ("not int not null, comment string comment 'it''s'", None),
        ("key bigint,value bigint\n,\tversion int ", ["key", "value", "version"]),
        ("a: int, b : string", ["a", "b"]),
        ("`a``b` int", ["a`b"]),
        ("`a.b` int, `a-b` int, `1` int, 1a int", ["a.b", "a-b", "1", "1a"]),
        ("größe int, `名前` string", ["größe", "名前"]),
        ('a string comment "say \\"hi\\", or (not) <that>; \'" not null', ["a"]),
    ],
)
def test_names_in_ddl(ddl, names):
    if names is None:
        names = [column.split()[0] for column in ddl.split(", ")]
    ddl = ddl.replace("it''s", "it\\'s")
    assert list(key_of(ddl).names) == names


def test_comments_are_ignored_and_constraints_come_in_any_order():
    assert value_of("a int comment 'x' not null") == value_of("a int NOT NULL COMMENT 'y'")
    assert value_of("a int not null") != value_of("a int")


@pytest.mark.parametrize(
    ("ddl", "descending"), [("a int", False), ("a int asc", False), ("a int NOT NULL Desc", True)]
)
def test_directions(ddl, descending):
    assert [column.descending for column in key_of(ddl)] == [descending]


@pytest.mark.parametrize(
    ("ddl", "column", "said"),
    [
        ("", None, "at least one"),
        ("  \n", None, "at least one"),
        ("a", "a", "a type"),
        ("a:", "a", "a type"),
        ("a foo", "a", "'foo'"),
        ("a int,", None, "a name"),
        (", a int", None, "a name"),
        ("a int b int", "a", "'b'"),
        ("a int, b int)", "b", "')'"),
        ("a int); drop table t", "a", "')'"),
        ("a int) using delta partitioned by (a", "a", "')'"),
        ("customer-id int", "customer", "'-'"),
        ("a.b int", "a", "'.'"),
        ("'a' int", None, "a name"),
        ("a int -- comment", "a", "'-'"),
        ("`a int", None, "'`'"),
        ("a int comment b", "a", "comment"),
        ("a int not", "a", "null"),
        ("a int null", "a", "'null'"),
        ("a int default 3", "a", "'default'"),
        ("a int primary key", "a", "'primary'"),
        ("a string collate UTF8_LCASE", "a", "'collate'"),
        ("a int generated always as (1)", "a", "'generated'"),
        ("a int unique", "a", "'unique'"),
        ("a int, primary key (a)", "primary", "'key'"),
        ("a int(5)", "a", "'('"),
        ("a timestamp(3)", "a", "'('"),
        ("a int[]", "a", "'['"),
        ("a array", "a", "'<'"),
        ("a array<int", "a", "'>'"),
        ("a array<int not null>", "a", "'>'"),
        ("a map<int>", "a", "','"),
        ("a struct<b: int", "a", "','"),
        ("a struct<b: int desc>", "a", "'desc'"),
        ("a decimal()", "a", "a number"),
        ("a decimal(x)", "a", "a number"),
        ("a decimal(3,-1)", "a", "a number"),
        ("a decimal(3,1,1)", "a", "')'"),
        ("a int desc", "a", "direction"),
        ("a int asc", "a", "direction"),
    ],
)
def test_refused_ddl(ddl, column, said):
    error = refused("other int", ddl)
    assert error.column == column
    assert said in str(error)


@pytest.mark.parametrize("ddl", ["a int desc asc", "a int desc not null", "a int desc comment 'x'"])
def test_a_direction_comes_last_and_once(ddl):
    assert refused(ddl, "b int").column == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("void", "void"),
        ("interval", "interval"),
        ("interval day to second", "interval"),
        ("variant", "variant"),
        ("geometry(4326)", "geometry"),
        ("time", "time"),
        ("char(3)", "use string"),
        ("varchar(3)", "use string"),
        ("character(3)", "use string"),
        ("int8", "int8"),
        ("text", "text"),
        ("datetime", "datetime"),
        ("array<void>", "void"),
        ("decimal(39,2)", "precision"),
        ("decimal(0)", "precision"),
        ("decimal(3,5)", "scale"),
        ("struct<>", "empty struct"),
        ("map<map<int,int>,int>", "key of a map"),
        ("map<array<struct<a: map<int,int>>>,int>", "key of a map"),
        ("struct<a int, A int>", "twice"),
        ("struct<`` int>", "empty"),
        ("array<struct<`a b` int>>", "' '"),
    ],
)
def test_refused_types(text, said):
    error = refused("other int", f"a {text}")
    assert error.column == "a"
    assert said in str(error)


# StructType


@pytest.mark.parametrize(("text", "data_type"), VALUE_TYPES.items())
def test_a_struct_gives_the_same_columns_as_ddl(text, data_type):
    struct = StructType([StructField("a", data_type, nullable=False)])
    assert value_of(struct) == value_of(f"a {text} not null")


def test_what_ddl_cannot_express_is_dropped():
    inner = StructType([StructField("b", T.IntegerType(), metadata={"comment": "x"})])
    nested = T.MapType(T.IntegerType(), T.ArrayType(inner, containsNull=False), False)
    struct = StructType([StructField("a", nested, metadata={"comment": "y"})])
    assert value_of(struct) == value_of("a map<int, array<struct<b: int>>>")


@pytest.mark.parametrize("descending", [True, False])
def test_direction_of_a_struct_field(descending):
    field = StructField("a", T.LongType(), metadata={"descending": descending})
    assert [column.descending for column in key_of(StructType([field]))] == [descending]
    assert refused("other int", StructType([field])).column == "a"


def test_direction_of_a_struct_field_is_a_bool():
    field = StructField("a", T.LongType(), metadata={"descending": "yes"})
    assert refused(StructType([field]), "b int").column == "a"


@pytest.mark.parametrize(
    ("data_type", "said"),
    [
        (T.NullType(), "void"),
        (T.OtherType("char(3)"), "use string"),
        (T.OtherType("varchar(3)"), "use string"),
        (T.DayTimeIntervalType(), "interval"),
        (T.YearMonthIntervalType(), "interval"),
        (T.OtherType("interval"), "interval"),
        (T.VariantType(), "variant"),
        (T.StringType("UTF8_LCASE"), "use string"),
        (T.ArrayType(T.StringType("UNICODE")), "use string"),
        (T.DecimalType(39, 0), "precision"),
        (T.DecimalType(5, -1), "scale"),
        (StructType([]), "empty struct"),
    ],
)
def test_refused_types_of_struct_fields(data_type, said):
    error = refused("other int", StructType([StructField("a", data_type)]))
    assert error.column == "a"
    assert said in str(error)


@pytest.mark.parametrize("declared", [None, 3, ["a int"], T.IntegerType()])
def test_only_ddl_and_structs_declare_columns(declared):
    assert refused(declared, "a int").column is None
    assert refused("a int", declared).column is None


def test_no_columns():
    assert "key" in str(refused(StructType([]), "a int"))
    assert "value" in str(refused("a int", StructType([])))
    assert "key" in str(refused("", "a int"))


# Names and keys


@pytest.mark.parametrize(
    ("key", "value", "column"),
    [
        ("a int, a int", "b int", "a"),
        ("a int, A int", "b int", "A"),
        ("a int", "b int, B int", "B"),
        ("a int", "b int, A string", "A"),
        ("`ä` int", "`Ä` int", "Ä"),
        ("`` int", "b int", ""),
        ("a int", "_b int", "_b"),
        ("_source_a int", "b int", "_source_a"),
    ],
)
def test_refused_names(key, value, column):
    assert refused(key, value).column == column


@pytest.mark.parametrize("character", " ,;{}()\n\t=")
def test_characters_that_delta_refuses(character):
    name = f"a{character}b"
    error = refused(f"`{name}` int", "c int")
    assert error.column == name
    assert repr(character) in str(error)
    assert refused("c int", StructType([StructField(name, T.IntegerType())])).column == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("float", "float keys are refused"),
        ("double", "float keys are refused"),
        ("real desc", "float keys are refused"),
        ("array<int>", "nested"),
        ("map<int, int>", "nested"),
        ("struct<b: int>", "nested"),
    ],
)
def test_refused_key_types(text, said):
    error = refused(f"id int, a {text}", "b int")
    assert error.column == "a"
    assert said in str(error)


# Laws

field_names = st.text(min_size=1, max_size=8).filter(
    lambda name: not (set(name) & set(" ,;{}()\n\t=") or name.startswith("_"))
)
atomic_types = st.sampled_from([*KEY_TYPES.values(), T.FloatType(), T.DoubleType()])


def structs(types):
    fields = st.builds(StructField, field_names, types, st.booleans())
    by_name = st.lists(fields, min_size=1, max_size=3, unique_by=lambda field: field.name.lower())
    return by_name.map(StructType)


data_types = st.recursive(
    atomic_types,
    lambda inner: st.one_of(
        st.builds(T.ArrayType, inner), st.builds(T.MapType, atomic_types, inner), structs(inner)
    ),
    max_leaves=6,
)


@given(structs(data_types))
def test_ddl_reads_back_as_the_same_value_columns(struct):
    columns = row_schema("other_column int", struct, stage="totals").value
    assert row_schema("other_column int", columns.ddl, stage="totals").value == columns


@given(structs(st.sampled_from([*KEY_TYPES.values()])), st.lists(st.booleans(), min_size=3))
def test_ddl_reads_back_as_the_same_key_columns(struct, directions):
    fields = [
        replace(field, metadata={"descending": descending})
        for field, descending in zip(struct.fields, cycle(directions), strict=False)
    ]
    schema = row_schema(StructType(fields), "other_column int", stage="totals")
    assert row_schema(schema.key.ddl, schema.value.ddl, stage="totals") == schema


@given(st.text(max_size=40) | st.text("a` <>(),:'\"\\intdesc", max_size=40))
def test_any_text_is_read_or_refused(ddl):
    columns = None
    with contextlib.suppress(DefinitionError):
        columns = key_of(ddl)
    if columns is not None:
        assert key_of(columns.ddl) == columns


def test_columns_of_an_existing_table_are_named_or_declared():
    named = existing_schema("a, `b c` DESC", None, stage="s")
    assert [(c.name, c.is_known, c.descending) for c in named.key] == [
        ("a", False, False),
        ("b c", False, True),
    ]
    assert not len(named.value)
    declared = existing_schema("a bigint desc", "b date, c int", stage="s")
    assert declared.key == row_schema("a bigint desc", "v int", stage="s").key
    assert declared.value == row_schema("k int", "b date, c int", stage="s").value
    assert existing_schema("a", "b, c", stage="s").value.names == ("b", "c")


@pytest.mark.parametrize(
    ("key", "value"), [("a, a", None), ("a", "b, A"), ("", None), ("a +", None), ("a", 3)]
)
def test_refused_columns_of_an_existing_table(key, value):
    with pytest.raises(DefinitionError) as caught:
        existing_schema(key, value, stage="s")
    assert caught.value.stage == "s"
