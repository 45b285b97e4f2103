"""The stages that `--select` selects, compared with walks over the edges step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import NotFoundError
from deltaproduce.cli.selection import selected

NAMES = ("orders", "lines", "sales_day", "sales_week", "totals", "report")


@st.composite
def graphs(draw):
    """Stages in an order of definition, each fed by some that come before it."""
    return {
        name: tuple(draw(st.sets(st.sampled_from(NAMES[:place])))) if place else ()
        for place, name in enumerate(NAMES)
    }


def walks(start, edges, steps):
    """All that walks of at most so many steps end at: a walk is a list of edges."""
    ends = {start}
    for _ in range(steps):
        ends |= {end for begin, end in edges if begin in ends}
    return ends


operators = st.none() | st.just("") | st.integers(0, 5)
"""No plus, a plus, and a plus with a number."""


@given(graphs(), st.sampled_from(NAMES), operators, operators)
def test_a_term_selects_what_walks_reach(graph, name, up, down):
    """`n+stage` is what n steps up reach, `stage+n` what n steps down do, without n all."""
    term = ("" if up is None else f"{up}+") + name + ("" if down is None else f"+{down}")
    to_feeders = [(reader, feeder) for reader, fed in graph.items() for feeder in fed]
    to_readers = [(feeder, reader) for reader, feeder in to_feeders]
    expected = {name}
    for steps, edges in ((up, to_feeders), (down, to_readers)):
        if steps is not None:
            expected |= walks(name, edges, len(NAMES) if steps == "" else steps)
    found = selected([term], graph, {})
    assert set(found) == expected
    assert list(found) == [one for one in graph if one in found]


@given(graphs(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_terms_are_a_union_and_parts_an_intersection(graph, names):
    terms = [f"+{name}" for name in names]
    each = [set(selected([term], graph, {})) for term in terms]
    assert set(selected(terms, graph, {})) == set(selected([" ".join(terms)], graph, {}))
    assert set(selected(terms, graph, {})) == set().union(*each)
    both = set.intersection(*each)
    if both:
        assert set(selected([",".join(terms)], graph, {})) == both
    else:
        with pytest.raises(NotFoundError):
            selected([",".join(terms)], graph, {})


LABELS = ("tag:nightly", "tag:hourly", "group:finance")


@given(
    graphs(),
    st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(LABELS)), min_size=1),
    st.sampled_from([*LABELS, "tag:*", "tag:*ly", "group:f*"]),
    operators,
    operators,
)
def test_a_label_selects_as_the_names_of_its_stages_do(graph, labels, label, up, down):
    begin, end = ("" if up is None else f"{up}+"), ("" if down is None else f"+{down}")
    wanted = {
        "tag:*": {"tag:nightly", "tag:hourly"},
        "tag:*ly": {"tag:nightly", "tag:hourly"},
        "group:f*": {"group:finance"},
    }.get(label, {label})
    names = [f"{begin}{name}{end}" for name in NAMES if wanted & labels.get(name, set())]
    if names:
        found = selected([f"{begin}{label}{end}"], graph, labels)
        assert found == selected(names, graph, {})
    else:
        with pytest.raises(NotFoundError):
            selected([f"{begin}{label}{end}"], graph, labels)


def test_patterns_and_nothing():
    graph = dict.fromkeys(NAMES, ())
    assert selected([], graph, {}) == NAMES
    assert selected(["*"], graph, {}) == NAMES
    assert selected(["sales_*"], graph, {}) == ("sales_day", "sales_week")
    assert selected(["sales_*,*_day"], graph, {}) == ("sales_day",)


@pytest.mark.parametrize(
    "term",
    ["nope", "Orders", "sales", "++orders", "+", "orders,", ",", "x*", "tag:y", "x:x", "group:x"],
)
def test_what_selects_nothing_is_refused(term):
    with pytest.raises(NotFoundError):
        selected([term], dict.fromkeys(NAMES, ()), {"orders": {"tag:x"}})
