"""Names of random columns and stages: plain ones, words of SQL, and odd characters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hypothesis import strategies as st

_WORDS = (
    *("select", "from", "case", "end", "order", "date", "timestamp", "null", "true", "interval"),
    *("values", "all", "not", "desc", "by", "key", "value", "count", "current_date", "show"),
)
_ODD = ("a.b", "x`y", "größe", "1st", "a-b", "it's", '"', "$x", "%s", "*")


@st.composite
def column_names(draw: st.DrawFn, plain: Sequence[str]) -> Mapping[str, str]:
    """Names for columns: in half of the cases as they are, else any that a column can have.

    Args:
        draw: given by Hypothesis.
        plain: names in the order of their importance; each is replaced by another one.
    """
    if draw(st.booleans()):
        return {name: name for name in plain}
    others = draw(st.permutations((*_WORDS, *_ODD)))
    return dict(zip(plain, others, strict=False))


@st.composite
def column_name(draw: st.DrawFn, plain: str, taken: Collection[str] = ()) -> str:
    """A name for a column: mostly a plain one, and none of those taken, which are lower case."""
    other = draw(st.sampled_from((*_WORDS, *_ODD)))
    return other if other not in taken and not draw(st.integers(0, 2)) else plain


@st.composite
def stage_name(draw: st.DrawFn, plain: str, taken: Collection[str]) -> str:
    """A name for a stage: mostly a plain one, sometimes a word of SQL that is none of those taken.

    A catalog takes no odd characters in the name of a table.
    """
    other = draw(st.sampled_from(_WORDS))
    return other if other not in taken and not draw(st.integers(0, 4)) else plain
