import functools
import inspect
import os
import pickle
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.model.fingerprints import Fingerprint, fingerprint
from deltaproduce.model.graph import Graph, Producer, Source
from deltaproduce.pipeline import Pipeline, merge
from deltaproduce.stages.functions.kinds import ByKey, OverTables
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.types.columns import row_schema

ID = {"key": "id bigint", "value": "v int"}
SCHEMA = row_schema(ID["key"], ID["value"], stage="any")

shop = Pipeline("shop")
orders = shop.source("orders", key="order_id bigint", value="customer_id bigint, amount int")


@shop.producer(orders, key="customer_id bigint", value="amount int")
def amounts(order_id, values):
    """Amounts by customer."""
    for value in values:
        yield value.customer_id, value.amount


def emit(key, values):
    return ((key, value) for value in values)


@shop.arrow_producer(orders, key="order_id bigint", value="amount int")
def charged(table):
    """Amounts by order."""
    return table.append_column("_source_order_id", table["order_id"]).drop_columns("customer_id")


@pytest.fixture
def pipeline() -> Pipeline:
    pipeline = Pipeline("test")
    pipeline.source("a", **ID)
    return pipeline


def refused(define, *, stage) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        define()
    assert caught.value.stage == stage
    return caught.value


# Definitions


def test_a_pipeline_lists_its_stages_in_order_of_definition():
    assert shop.name == "shop"
    assert shop.stages == (orders, amounts, charged)
    schema = row_schema("order_id long", "customer_id long, amount int", stage="orders")
    assert orders == Source("orders", schema, Given())
    assert amounts.name == "amounts"
    assert amounts.feeders == (orders,)
    assert amounts.schema == row_schema("customer_id long", "amount int", stage="amounts")


def test_a_producer_is_called_as_its_function():
    assert isinstance(amounts, Producer)
    assert list(amounts(1, [])) == []
    assert list(amounts(order_id=1, values=[])) == []
    assert amounts.__name__ == "amounts"
    assert amounts.__qualname__ == "amounts"
    assert amounts.__module__ == __name__
    assert amounts.__doc__ == "Amounts by customer."
    assert amounts.__wrapped__ is amounts.function
    assert str(inspect.signature(amounts)) == "(order_id, values)"


def test_an_arrow_producer_is_called_as_its_function():
    assert isinstance(charged, Producer)
    assert (charged.name, charged.feeders, charged.kind.word) == ("charged", (orders,), "arrow")
    assert (charged.__doc__, str(inspect.signature(charged))) == ("Amounts by order.", "(table)")
    table = pa.table({"order_id": [1], "customer_id": [7], "amount": [5]})
    assert charged(table).to_pylist() == [{"order_id": 1, "amount": 5, "_source_order_id": 1}]
    assert pickle.loads(pickle.dumps(charged)) is charged


@pytest.mark.parametrize(("streaming", "form"), [(False, "arrow"), (True, "arrow_stream")])
def test_the_form_of_a_producer_says_how_its_function_is_called(pipeline, streaming, form):
    rows = pipeline.producer("a", **ID, name="b")(lambda key, values: [])
    arrow = pipeline.arrow_producer("a", **ID, name="c", streaming=streaming)(lambda table: table)
    assert (rows.kind.word, arrow.kind.word) == ("rows", form)
    copied = pickle.loads(pickle.dumps(pipeline.arrow_producer("a", **ID)(table_of)))
    assert copied.kind.word == "arrow"


def table_of(table):
    return table


def test_stages_are_immutable():
    for stage in shop.stages:
        with pytest.raises(AttributeError):
            stage.name = "other"
    with pytest.raises(AttributeError):
        shop.graph().stages = ()


def test_a_producer_is_pickled_by_reference_like_a_function():
    assert pickle.loads(pickle.dumps(amounts)) is amounts
    assert pickle.loads(pickle.dumps(shop.graph())) == shop.graph()


def test_a_producer_that_is_no_global_is_pickled_by_value(pipeline):
    producer = pipeline.producer("a", **ID)(emit)
    copy = pickle.loads(pickle.dumps(producer))
    assert copy == producer
    assert list(copy(1, [2])) == [(1, 2)]
    assert copy.__name__ == "emit"


def test_a_graph_is_not_changed_by_later_definitions(pipeline):
    graph = pipeline.graph()
    pipeline.producer("a", **ID)(emit)
    assert [stage.name for stage in graph.stages] == ["a"]
    assert [stage.name for stage in pipeline.graph().stages] == ["a", "emit"]


def test_feeders_may_be_given_by_name(pipeline):
    b = pipeline.producer("a", **ID, name="b")(emit)
    c = pipeline.producer("b", **ID, name="c")(emit)
    assert c.feeders == (b,)


class Emit:
    def __call__(self, key, values):
        return emit(key, values)


@pytest.mark.parametrize(
    "function",
    [emit, Emit(), functools.partial(emit), lambda key, values: [], lambda *anything: [], zip],
)
def test_functions_of_all_kinds(pipeline, function):
    producer = pipeline.producer("a", **ID, name="b")(function)
    assert producer.function is function
    assert producer.__wrapped__ is function
    assert fingerprint(producer) == fingerprint(producer)


# Names


@pytest.mark.parametrize(
    "name", ["b", "bä", "名前", "a b", "it's", 'say "b"', "a\\b", "a.b", "...", "b" * 100, "*", "é"]
)
def test_names(pipeline, name):
    assert pipeline.source(name, **ID).name == name
    assert pipeline.graph().stage(name).name == name


@pytest.mark.parametrize(
    "name",
    ["", "  ", "_b", "__", "b" * 101, "a/b", "/", "a\0b", "a\nb", "a\tb", "a\x7fb", "a\x85b",
     "a\u2028b", "a\u2029b", "a\ud800b", ".", "..", "a", "A"],
)  # fmt: skip
def test_refused_names(pipeline, name):
    refused(lambda: pipeline.source(name, **ID), stage=name)
    refused(lambda: pipeline.producer("a", **ID, name=name)(emit), stage=name)
    refused(lambda: pipeline.arrow_producer("a", **ID, name=name)(table_of), stage=name)
    assert len(pipeline.stages) == 1


@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_refused_pipeline_names(name):
    refused(lambda: Pipeline(name), stage=None)


@pytest.mark.parametrize("function", [lambda key, values: [], functools.partial(emit), Emit(), 3])
def test_functions_without_a_name_need_one(pipeline, function):
    refused(lambda: pipeline.producer("a", **ID)(function), stage=None)
    refused(lambda: pipeline.arrow_producer("a", **ID)(function), stage=None)


# Refused producers


def same_feeder_twice(pipeline):
    pipeline.producer("a", pipeline.stages[0], **ID, name="b")(emit)


def feeder_of_another_pipeline(pipeline):
    other = Pipeline("other")
    pipeline.producer(other.source("a", **ID), **ID, name="b")(emit)


def bare_function_as_feeder(pipeline):
    pipeline.producer(emit, **ID, name="b")(emit)


def no_stage_as_feeder(pipeline):
    pipeline.producer(None, **ID, name="b")(emit)


def itself_as_feeder(pipeline):
    pipeline.producer("b", **ID, name="b")(emit)


def later_stage_as_feeder(pipeline):
    pipeline.producer("c", **ID, name="b")(emit)


def no_feeder(pipeline):
    pipeline.producer(**ID, name="b")(emit)


def no_function(pipeline):
    pipeline.producer("a", **ID, name="b")(3)


def too_few_parameters(pipeline):
    pipeline.producer("a", **ID, name="b")(lambda key: [])


def too_many_parameters(pipeline):
    pipeline.producer("a", **ID, name="b")(lambda key, values, more: [])


def keyword_only_parameters(pipeline):
    pipeline.producer("a", **ID, name="b")(lambda key, *, values: [])


def two_parameters_for_a_table(pipeline):
    pipeline.arrow_producer("a", **ID, name="b")(emit)


def no_parameter_for_batches(pipeline):
    pipeline.arrow_producer("a", **ID, name="b", streaming=True)(lambda: iter(()))


def unknown_feeder_of_tables(pipeline):
    pipeline.arrow_producer("c", **ID, name="b")(table_of)


def join_of_a_function_for_one(pipeline):
    pipeline.source("c", key="other long", value="w string")
    pipeline.producer("a", "c", **ID, name="b")(lambda key, values: [])


def merge_of_a_function_for_two(pipeline):
    pipeline.source("c", key="other long", value="w int")
    pipeline.producer(merge("a", "c"), **ID, name="b")(lambda key, left, right: [])


def merge_of_nothing(pipeline):
    pipeline.producer("a", merge(), **ID, name="b")(lambda key, left, right: [])


def merge_of_other_values(pipeline):
    pipeline.source("c", key="id bigint", value="w string")
    pipeline.producer(merge("a", "c"), **ID, name="b")(emit)


def same_feeder_in_a_merge(pipeline):
    pipeline.source("c", key="id bigint", value="v int")
    pipeline.producer("a", merge("c", "a"), **ID, name="b")(lambda key, left, right: [])


def other_key_types(pipeline):
    pipeline.source("c", key="id int", value="v int")
    pipeline.producer("a", "c", **ID, name="b")(lambda key, left, right: [])


def other_key_direction(pipeline):
    pipeline.source("c", key="id bigint desc", value="v int")
    pipeline.producer("a", "c", **ID, name="b")(lambda key, left, right: [])


def more_key_columns(pipeline):
    pipeline.source("c", key="id bigint, id2 bigint", value="v int")
    pipeline.producer("a", "c", **ID, name="b")(lambda key, left, right: [])


def test_joins_and_merges(pipeline):
    a = pipeline.stages[0]
    c = pipeline.source("c", key="other long", value="w int")
    d = pipeline.source("d", key="other long", value="w string")
    joined = pipeline.producer(a, "d", **ID, name="joined")(lambda key, left, right: [])
    assert joined.inputs == ((a,), (d,))
    both = pipeline.producer(d, merge("a", c), **ID, name="both")(lambda key, left, right: [])
    assert both.inputs == ((d,), (a, c))
    assert both.feeders == (d, a, c)


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ({"surrogate": "id"}, "id"),
        ({"surrogate": "w"}, "w"),
        ({"surrogate": "V"}, "V"),
        ({"surrogate": "v", "preserve": lambda value, example: value}, None),
        ({"preserve": lambda value: value}, None),
        ({"preserve": 3}, None),
    ],
)
def test_refused_surrogates_and_hooks(pipeline, given, column):
    schema = {"key": "id bigint", "value": "v bigint, w string"}
    found = refused(lambda: pipeline.producer("a", **schema, name="b", **given)(emit), stage="b")
    assert found.column == column


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (same_feeder_twice, "twice"),
        (feeder_of_another_pipeline, "another pipeline"),
        (bare_function_as_feeder, "decorate it first"),
        (no_stage_as_feeder, "None"),
        (itself_as_feeder, "cycle"),
        (later_stage_as_feeder, "before"),
        (no_feeder, "no feeder"),
        (no_function, "3"),
        (too_few_parameters, "(key)"),
        (too_many_parameters, "more"),
        (keyword_only_parameters, "values"),
        (join_of_a_function_for_one, "values, values"),
        (merge_of_a_function_for_two, "(key, values)"),
        (merge_of_nothing, "no feeder"),
        (merge_of_other_values, "'w string'"),
        (same_feeder_in_a_merge, "'a' twice"),
        (two_parameters_for_a_table, "(table)"),
        (no_parameter_for_batches, "(batches)"),
        (unknown_feeder_of_tables, "'c'"),
        (other_key_types, "'id int'"),
        (other_key_direction, "'id bigint DESC'"),
        (more_key_columns, "id2"),
    ],
)
def test_refused_producers(pipeline, define, said):
    assert said in str(refused(lambda: define(pipeline), stage="b"))
    assert "b" not in [stage.name for stage in pipeline.stages]


def test_refused_columns_name_stage_and_column(pipeline):
    define = pipeline.producer("a", key="x float", value="v int", name="b")
    assert refused(lambda: define(emit), stage="b").column == "x"
    define = pipeline.arrow_producer("a", key="x float", value="v int", name="b")
    assert refused(lambda: define(table_of), stage="b").column == "x"
    assert refused(lambda: pipeline.source("b", key="k int", value="K int"), stage="b").column


# Graphs


@pytest.fixture
def diamond() -> Graph:
    """Joins cannot be defined yet, but a graph holds them: a -> b, c; (b, c) -> d; e -> f."""
    a, e = Source("a", SCHEMA, Given()), Source("e", SCHEMA, Given())
    b, c = (Producer(name, ((a,),), SCHEMA, ByKey(emit)) for name in "bc")
    d = Producer("d", ((b,), (c,)), SCHEMA, ByKey(lambda key, left, right: []))
    f = Producer("f", ((e,),), SCHEMA, ByKey(emit))
    return Graph((a, b, c, d, e, f))


def names(stages):
    return "".join(stage.name for stage in stages)


def test_graph(diamond):
    assert names(diamond.sources) == "ae"
    assert names(diamond.producers) == "bcdf"
    assert diamond.stage("d").feeders == (diamond.stage("b"), diamond.stage("c"))


@pytest.mark.parametrize(
    ("name", "readers"), [("a", "bc"), ("b", "d"), ("c", "d"), ("d", ""), ("e", "f"), ("f", "")]
)
def test_readers_of(diamond, name, readers):
    assert names(diamond.readers_of(name)) == readers


@pytest.mark.parametrize(
    ("start", "downstream"),
    [("", ""), ("a", "bcd"), ("b", "d"), ("d", ""), ("ca", "bcd"), ("ae", "bcdf"), ("fb", "d")],
)
def test_downstream_of(diamond, start, downstream):
    assert "".join(diamond.downstream_of(start)) == downstream


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: graph.stage("x"),
        lambda graph: graph.stage("A"),
        lambda graph: graph.readers_of("x"),
        lambda graph: graph.downstream_of(["a", "x"]),
    ],
)
def test_unknown_stages(diamond, ask):
    with pytest.raises(NotFoundError, match=r"known: a, b, c|do you mean 'a'"):
        ask(diamond)


def test_an_empty_graph():
    graph = Pipeline("empty").graph()
    assert graph.stages == graph.sources == graph.producers == graph.downstream_of([]) == ()
    with pytest.raises(NotFoundError):
        graph.stage("a")


@pytest.mark.parametrize("order", [(1, 0), (1,)])
def test_a_graph_has_feeders_first(order):
    stages = (
        Source("a", SCHEMA, Given()),
        Producer("b", ((Source("a", SCHEMA, Given()),),), SCHEMA, ByKey(emit)),
    )
    refused(lambda: Graph(tuple(stages[i] for i in order)), stage="b")


# Fingerprints


def of_function(function, **changed) -> Fingerprint:
    pipeline = Pipeline("any")
    pipeline.source("a", **ID)
    return fingerprint(pipeline.producer("a", **({"name": "b"} | ID | changed))(function))


def loaded(text, path, name="produce", **globals_):
    """Returns the function of a module that is written to a file, as `inspect` needs it."""
    path.write_text(text)
    exec(compile(text, str(path), "exec"), globals_)
    return globals_[name]


SOURCE_TEXT = "def produce(key, values, rate=2):\n    yield key, [rate, '  x  ']\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (SOURCE_TEXT, True),
        (f"# a comment\n\n\n{SOURCE_TEXT}", True),
        ("def produce(key,values,rate = 2) :  # why\n\n  yield (key, [rate,\n'  x  '])", True),
        ("def produce(key, values, rate=2):\n  'doc'\n  yield key, [rate, '  x  ']\n", True),
        (f"@deco(1,\n  2)\n{SOURCE_TEXT}", True),
        ("if True:\n    @deco(lambda: 3)\n    def produce(key, values, rate=2):\n"
         "        yield key, [rate, '  x  ']\n", True),
        (SOURCE_TEXT.replace("rate=2", "rate=3"), False),
        (SOURCE_TEXT.replace("'  x  '", "' x '"), False),
        (SOURCE_TEXT.replace("values", "rows"), False),
        (SOURCE_TEXT.replace("yield key", "yield -key"), False),
    ],
)  # fmt: skip
def test_the_function_counts_without_its_looks(tmp_path, text, same):
    deco = lambda *args: lambda function: function  # noqa: E731
    before = of_function(loaded(SOURCE_TEXT, tmp_path / "before.py"))
    after = of_function(loaded(text, tmp_path / "after.py", deco=deco))
    assert (before.function == after.function) is same
    assert before.layout == after.layout


def test_indentation_of_text_literals_counts_not_that_of_code(tmp_path):
    text = 'def produce(key, values):\n    yield """\n  a\n"""\n'
    nested = 'if True:\n    def produce(key, values):\n        yield """\n  a\n"""\n'
    other = text.replace("\n  a", "\n a")
    digests = [
        of_function(loaded(source, tmp_path / f"{i}.py")).function
        for i, source in enumerate([text, nested, other])
    ]
    assert digests[0] == digests[1] != digests[2]


def closing_over(value):
    def produce(key, values):
        return [(key, value)]

    return produce


def doubled(function):
    @functools.wraps(function)
    def wrapper(key, values):
        return [*function(key, values), *function(key, values)]

    return wrapper


def emit_other(key, values):
    return [(key, -value) for value in values]


DIFFERENT = [
    1, 2, 1.0, True, None, "1", b"1", (1, 2), [1, 2], (2, 1), {"a": 1}, {"a": 2}, {1, 2}, {1, 3},
    frozenset("ab"), Decimal(1), [1, [2]], [[1], 2], emit, emit_other, doubled(emit),
    doubled(emit_other), functools.partial(emit, 1), functools.partial(emit, 2), object(), Emit(),
    Emit, len, Emit().__call__, amounts,
]  # fmt: skip


def test_what_a_function_closes_over_counts():
    digests = [of_function(closing_over(value)).function for value in DIFFERENT]
    assert len(set(digests)) == len(DIFFERENT)


def test_other_objects_count_by_type():
    assert of_function(closing_over(object())) == of_function(closing_over(object()))


def test_wrappers_and_what_they_wrap_count():
    digests = {
        of_function(function).function
        for function in [emit, emit_other, doubled(emit), doubled(emit_other), Emit()]
    }
    assert len(digests) == 5


def test_cycles_end():
    def recursive(key, values):
        return recursive(key, values)

    looped = []
    looped.append(looped)
    assert of_function(recursive) != of_function(closing_over(looped))


def test_a_cell_not_yet_assigned():
    def produce(key, values):
        return later

    digest = of_function(produce).function
    later = 1
    assert of_function(produce).function != digest


def test_lambdas():
    one = of_function(lambda key, values: [(key, 1)])
    also_one = of_function(lambda key, values: [(key,   1)])  # fmt: skip
    two = of_function(lambda key, values: [(key, 2)])
    assert one == also_one
    assert one != two


def test_without_source_text_the_code_counts():
    def made(text):
        scope = {}
        exec(text, scope)
        return of_function(scope["produce"])

    plain = made("def produce(key, values):\n return [lambda: (key, {1, 2})]")
    assert made("\n\n#\ndef produce(key, values):\n  return [lambda: (key, {1, 2})]") == plain
    assert made("def produce(key, values):\n return [lambda: (key, {1, 3})]") != plain
    assert made("def produce(key, values):\n return [lambda: [key, {1, 2}]]") != plain


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "c"},
        {"key": "id2 bigint"},
        {"key": "id int"},
        {"key": "id bigint desc"},
        {"key": "id bigint not null"},
        {"key": "id bigint, v int", "value": "w int"},
        {"value": "v bigint"},
        {"value": "v int, w int"},
        {"value": "v struct<a: int>"},
        {"value": "v struct<a: int not null>"},
    ],
)
def test_the_layout_counts(changed):
    before, after = of_function(emit), of_function(emit, **changed)
    assert before.layout != after.layout
    assert before.function == after.function


def test_the_form_counts_as_a_part_of_the_function():
    found = [
        fingerprint(Producer("b", ((Source("a", SCHEMA, Given()),),), SCHEMA, kind))
        for kind in (ByKey(emit), OverTables(emit), OverTables(emit, streaming=True))
    ]
    assert len({one.function for one in found}) == 3
    assert len({one.layout for one in found}) == 1


def test_feeders_and_kind_count():
    a, b = Source("a", SCHEMA, Given()), Source("b", SCHEMA, Given())
    inputs = [((a,),), ((a,), (b,)), ((b,), (a,)), ((a, b),), ((b, a),)]
    stages = [a, b, *(Producer("a", found, SCHEMA, ByKey(emit)) for found in inputs)]
    assert len({fingerprint(stage).layout for stage in stages}) == len(stages)
    assert fingerprint(a).function == fingerprint(b).function


def test_surrogates_and_hooks_count():
    plain = of_function(emit, value="v bigint")
    assert of_function(emit, value="v bigint", surrogate="v").layout != plain.layout
    hooked = of_function(emit, value="v bigint", preserve=lambda value, example: value)
    assert (hooked.layout, hooked.function != plain.function) == (plain.layout, True)
    other = of_function(emit, value="v bigint", preserve=lambda value, example: example)
    assert other.function != hooked.function


def test_synonyms_and_comments_of_columns_do_not_count():
    assert of_function(emit) == of_function(emit, key="id long", value="`v` integer comment 'x'")


def test_another_process_finds_the_same(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from deltaproduce.pipeline import Pipeline\n"
        "from deltaproduce.model.fingerprints import fingerprint\n"
        "def made(words):\n"
        "    def produce(key, values):\n"
        "        return [key in {'a', 'b', 'c'}, words]\n"
        "    return produce\n"
        "scope = {}\n"
        'exec(\'def produce(key, values): return [key in {1, "b", "c"}]\', scope)\n'
        "pipeline = Pipeline('any')\n"
        "pipeline.source('a', key='id bigint', value='v int')\n"
        "for i, function in enumerate([made({'x', 'y', 'z'}), scope['produce']]):\n"
        "    producer = pipeline.producer('a', key='k int', value='v int', name=f's{i}')\n"
        "    print(fingerprint(producer(function)))\n"
    )

    def output(seed):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, str(program)]
        return subprocess.run(command, env=environment, check=True, capture_output=True).stdout

    assert output("0") == output("1")
