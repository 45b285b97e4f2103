"""Names: any word and character that a column may have is written so that it reads back."""

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from deltaproduce import Pipeline, agg
from deltaproduce.described.content import described, read_text, text_of
from deltaproduce.described.descriptor import Description
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.functions import PHYSICAL, VOLATILE
from deltaproduce.stages.sql.keys import key_columns
from deltaproduce.types.columns import named_columns, plain_columns
from deltaproduce.types.data_types import IntegerType, StructField, StructType
from deltaproduce.types.ddl import ddl_of, identifier, name_from, quoted, struct_from_ddl
from deltaproduce.types.stored_as import StoredAs


@cache
def words() -> tuple[str, ...]:
    """Words that mean something to a parser of SQL, and names of functions without arguments."""
    parser, tokens = Spark.Parser, Spark.Tokenizer
    found = {*tokens.KEYWORDS, *parser.NO_PAREN_FUNCTION_PARSERS, *VOLATILE, *PHYSICAL}
    found |= {kind.name for kind in parser.NO_PAREN_FUNCTIONS}
    found |= {kind.name for kind in parser.ID_VAR_TOKENS | parser.RESERVED_TOKENS}
    return tuple(sorted({w.lower() for w in found if re.fullmatch("[A-Za-z]\\w*", w)}))


NAMES = st.one_of(
    st.deferred(lambda: st.sampled_from(words())),
    st.deferred(lambda: st.sampled_from(words())).map(str.upper),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters=" ,;{}()="),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["a.b", "`", "a`b", "``", "ä", "1", "1a", "a-b", "'", '"', "--", "/*", "x*"]),
).filter(lambda name: not name.startswith("_"))
TWO_NAMES = st.lists(NAMES, min_size=2, max_size=2, unique_by=str.lower)


@pytest.mark.parametrize(
    "text", ["{}", "{} + 1", "coalesce({}, 1)", "CAST({} AS string)", "1 > {}"]
)
def test_a_quoted_word_is_that_column_in_an_expression(text):
    """Whatever `quoted` leaves bare, an expression reads as a column."""
    for word in words():
        assert Expression.read(text.format(quoted(word)), [word]).columns == (word,), word


@given(TWO_NAMES, st.sampled_from(["", " desc", " ASC"]))
def test_names_read_back_from_lists_and_expressions(names, direction):
    """Lists of names, lists of expressions, column lists and types give back the names."""
    one, other = names
    assert name_from(quoted(one)) == name_from(identifier(one)) == one
    listed = named_columns(f"{quoted(one)}{direction},{quoted(other)}")
    assert listed.names == (one, other)
    assert [c.descending for c in listed] == [direction == " desc", False]
    found = list(Expression.listed(f"{quoted(one)}, {quoted(other)}", names))
    assert [(name, e.column) for name, e in found] == [(one, one), (other, other)]
    ((name, expression),) = Expression.listed(f"{quoted(one)} % 3 AS {quoted(other)}", [one])
    assert (name, expression.columns) == (other, (one,))
    struct = StructType([StructField(name, IntegerType()) for name in names])
    assert struct_from_ddl(f"found {ddl_of(struct)}").fields[0].dataType == struct


@given(TWO_NAMES)
def test_a_plain_name_that_is_a_column_is_that_column(names):
    """Lists written with bare words are read, too: an item without AS can only be a column."""
    one, _ = names
    if re.fullmatch("\\w+", one):
        assert [*Expression.listed(one, names)] == [*Expression.listed(identifier(one), names)]


@given(TWO_NAMES)
def test_how_rows_are_stored_reads_back(names):
    """A descriptor, and the text in a version, read back as the same description."""
    one, other = names
    schema = f"{quoted(one)} bigint, {quoted(other)} bigint, last bigint"
    if "last" in map(str.lower, names):
        return
    by, order = f"{quoted(other)}, {quoted(one)} % 3 AS `its bucket`", f"{quoted(one)} DESC"
    by = by.replace(" bucket", ".bucket")
    found = Description.of(schema, by, order, "zstd")
    assert Description.read(found.json) == found
    assert found.columns == plain_columns(found.columns.ddl)
    stage = Pipeline("p").source("s", key=f"{quoted(one)} bigint", value=f"{quoted(other)} bigint")
    content = described(stage, StoredAs(by, order))
    assert read_text(text_of(content), stage) == content


@given(TWO_NAMES)
def test_keys_of_stages_may_have_any_name(names):
    """Keys of queries, of aggregates and of indexes, and windows, find the column."""
    one, other = names
    assert key_columns(f"{quoted(one)} desc", names, stage="s") == {one: True}
    pipeline = Pipeline("p")
    source = pipeline.source("s", key=f"{quoted(one)} bigint", value=f"{quoted(other)} bigint")
    values = {other: agg.sum(quoted(other))}
    aggregate = pipeline.aggregate("a", source, key=quoted(one), values=values)
    assert (aggregate.schema.key.names, aggregate.schema.value.names) == ((one,), (other,))
    index = pipeline.index("i", source, key=f"{quoted(other)} desc", include=None)
    assert index.schema.key.names == (other,)
