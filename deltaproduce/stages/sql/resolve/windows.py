"""Window functions: what they ask for, and the order of rows for those that need one.

A function that takes one row before another needs an order in which no two rows are equal. So the
ORDER BY of its window goes on with all columns of the FROM, or with the keys of the GROUP BY, from
left to right, nulls first. The text for Spark gets them, too (`TextEdit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import Token, TokenType, exp

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, cast_to
from deltaproduce.stages.sql.algebra.windows import (
    ENDS,
    OFFSETS,
    RANKS,
    Frame,
    FrameBound,
    OrderKey,
    WindowCall,
    WindowRelation,
    is_ordered,
)
from deltaproduce.stages.sql.functions import AGGREGATES, BY_PLACE
from deltaproduce.stages.sql.resolve.reading import QueryContext, TextOrigin
from deltaproduce.stages.sql.resolve.ties import as_text
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import TextEdit, beside, closing_of, refused, start_of, token_at
from deltaproduce.types.data_types import (
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    NullType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

_NAMES: Final = {"first": "first_value", "last": "last_value", "any_value": "first_value"}
_NUMBERED: Final = frozenset({"row_number", "ntile"})
_ORDERED: Final = RANKS | _NUMBERED | OFFSETS
"""Functions that need an ORDER BY, and have no frame."""
_RANGES: Final = NumericType | DateType | TimestampType | TimestampNTZType
_WHOLE: Final = Frame(False, FrameBound("unbounded"), FrameBound("unbounded"))
_UP_TO_NOW: Final = Frame(False, FrameBound("unbounded"), FrameBound("current"))

Resolve = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True, slots=True)
class Tie:
    """A column that orders rows.

    Attributes:
        text: the column in the text for Spark; None if no name means it there.
    """

    field: Field
    text: str | None


@dataclass(frozen=True, slots=True)
class WindowExpression:
    """A window function as it is written.

    Attributes:
        node: all of it.
        call: the call of the function, and its name.
        arguments: its arguments, without ``*``, and what WITHIN GROUP sorts by.
        where: the condition of its FILTER.
        spec: what defines the window.
        is_usual: whether its arguments are not told by DISTINCT, ``*`` or WITHIN GROUP.
    """

    node: exp.Window
    call: exp.Expr
    name: str | None
    arguments: tuple[exp.Expr, ...]
    where: exp.Expr | None
    ignores_nulls: bool
    spec: exp.Window
    is_usual: bool

    @staticmethod
    def read(node: exp.Window, windows: Mapping[str, exp.Window]) -> WindowExpression:
        """Return what a node asks for.

        Args:
            windows: the definitions of the WINDOW clause, by lower-case name.

        Raises:
            DefinitionError: Spark does not have it; with `line`.
        """
        call, where, ignores, usual = node.this, None, False, True
        sorted_by = list[exp.Expr]()
        while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
            where = call.expression.this if isinstance(call, exp.Filter) else where
            ignores = ignores or isinstance(call, exp.IgnoreNulls)
            if isinstance(call, exp.WithinGroup):
                usual = False
                sorted_by += [one.this for one in call.expression.expressions]
            call = call.this
        given = list(call.expressions)
        if given and isinstance(given[0], exp.IgnoreNulls | exp.RespectNulls):
            ignores = ignores or isinstance(given[0], exp.IgnoreNulls)
            given[0] = given[0].this
        if any(isinstance(one, exp.Distinct) for one in given):
            raise refused(node, "has DISTINCT, which window functions do not have; group first")
        stars = [
            one for one in given if isinstance(one, exp.Star) or isinstance(one.this, exp.Star)
        ]
        bare = len(given) == 1 and isinstance(given[0], exp.Star)
        name = function_name(call)
        return WindowExpression(
            node,
            call,
            _NAMES.get(name or "", name),
            (*(one for one in given if one not in stars), *sorted_by),
            where,
            ignores,
            windows.get(node.alias.lower(), node),
            usual and (not stars or bare),
        )

    @property
    def order(self) -> list[exp.Expr]:
        """The expressions of ORDER BY."""
        order = self.spec.args.get("order")
        return [] if order is None else list(order.expressions)

    @property
    def frame(self) -> exp.Expr | None:
        """The frame, if it is written."""
        spec: exp.Expr | None = self.spec.args.get("spec")
        return spec


def windowed(
    function: WindowExpression,
    resolve: Resolve,
    relation: Callable[[], Relation],
    ties: Sequence[Tie],
    reading: QueryContext,
) -> tuple[WindowRelation, Field]:
    """Return a relation with the field of a window function, and this field.

    Args:
        resolve: resolves an expression; it may add fields to the relation.
        relation: the relation so far.

    Raises:
        DefinitionError: the window is refused; with `line`.
    """
    arguments = [resolve(one) for one in function.arguments]
    where = None if function.where is None else resolve(function.where)
    partition = [(resolve(one), one) for one in function.spec.args.get("partition_by") or ()]
    order = [(resolve(one.this), one) for one in function.order]
    below = relation()
    fields = below.fields
    keys = tuple(_order_key(tree, one, fields, reading) for tree, one in order)
    frame = _frame(function, keys, resolve, fields, reading)
    is_total = function.name in BY_PLACE or (frame.by_rows and not frame.is_whole)
    _check(function, frame, reading, is_total=is_total)
    scalars = tuple(map(lambda t, n: reading.typed(t, fields, n), arguments, function.arguments))
    condition = None
    if where is not None and function.where is not None:
        condition = reading.condition(where, fields, function.where)
    call = _call(function, scalars, condition, frame, fields, reading)
    own = reading.field(function.name, call.data_type)
    window = WindowRelation(
        below,
        ((own, call),),
        tuple(reading.typed(tree, fields, one) for tree, one in partition),
        keys,
        tuple(dict.fromkeys(tie.field for tie in ties)) if is_total else (),
    )
    if is_total and function.order:
        _add_ties(function, ties, reading)
    if isinstance(below, WindowRelation):
        both = replace(window, input=below)
        if below.takes(both):
            window = replace(below, calls=(*below.calls, (own, call)))
    reading.origins[window] = TextOrigin(function.node)
    return window, own


def _check(
    function: WindowExpression, frame: Frame, reading: QueryContext, *, is_total: bool
) -> None:
    if not function.order and (is_total or function.name in _ORDERED):
        advice = "depends on the order of rows, and its window has none; write ORDER BY"
        reading.leave_to_spark(function.node, advice)
    if function.where is not None and function.name not in AGGREGATES | {"first_value"}:
        raise refused(function.node, "has a FILTER, which only aggregates have")
    is_usual = frame.by_rows and (frame.start.kind, frame.end.kind) == ("unbounded", "current")
    if function.name in _ORDERED and function.frame is not None and not is_usual:
        raise refused(function.node, "has a frame, which its function does not take; drop it")
    if is_total and "value" in {frame.start.kind, frame.end.kind}:
        advice = (
            "depends on the order of rows that are equal in a RANGE; write ROWS, or min_by, max_by"
        )
        raise refused(function.node, advice)


def _order_key(
    tree: exp.Expr, node: exp.Expr, fields: Sequence[Field], reading: QueryContext
) -> OrderKey:
    scalar = reading.typed(tree, fields, node.this)
    return OrderKey(scalar, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _frame(
    function: WindowExpression,
    keys: Sequence[OrderKey],
    resolve: Resolve,
    fields: Sequence[Field],
    reading: QueryContext,
) -> Frame:
    spec = function.frame
    if spec is None:
        return _UP_TO_NOW if function.order else _WHOLE
    by_rows = spec.args.get("kind") == "ROWS"
    if spec.args.get("kind") not in {"ROWS", "RANGE"} or spec.args.get("exclude"):
        raise refused(function.node, "has a frame that Spark does not have; write ROWS or RANGE")

    def bound(name: str, unbounded: str) -> FrameBound:
        given, side = spec.args.get(name), spec.args.get(f"{name}_side")
        if given == "UNBOUNDED" and side == unbounded:
            return FrameBound("unbounded")
        if given is None or given == "CURRENT ROW":
            return FrameBound("current")
        if given == "UNBOUNDED":
            raise refused(function.node, "has a frame that ends before it begins")
        if by_rows:
            return _rows_away(given, side == "FOLLOWING", function)
        if len(keys) != 1:
            raise refused(
                function.node, "has a RANGE by a value, which needs one column in ORDER BY"
            )
        is_less = (side == "PRECEDING") != keys[0].descending
        return FrameBound(
            "value", value=_moved(keys[0], resolve(given), given, is_less, fields, reading)
        )

    start, end = bound("start", "PRECEDING"), bound("end", "FOLLOWING")
    is_open = "unbounded" in {start.kind, end.kind}
    if by_rows and not is_open and start.rows > end.rows:
        raise refused(function.node, "has a frame that ends before it begins")
    return Frame(by_rows, start, end)


def _rows_away(given: exp.Expr, is_after: bool, function: WindowExpression) -> FrameBound:
    if not isinstance(given, exp.Literal) or not given.is_int:
        raise refused(function.node, "needs a whole number of ROWS")
    return FrameBound("rows", int(given.name) if is_after else -int(given.name))


def _moved(
    key: OrderKey,
    distance: exp.Expr,
    node: exp.Expr,
    is_less: bool,
    fields: Sequence[Field],
    reading: QueryContext,
) -> Scalar:
    """Return the value of the order at some distance, in the type of the order as in Spark."""
    tree, kind = exp.Paren(this=key.scalar.expression.tree.copy()), key.scalar.data_type
    typed_distance = reading.typed(distance, fields, node)
    moved: exp.Expr
    if isinstance(kind, DateType) and isinstance(typed_distance.data_type, IntegerType):
        name = "date_sub" if is_less else "date_add"
        moved = exp.Anonymous(this=name, expressions=[tree, distance])
    else:
        if isinstance(kind, NumericType) and typed_distance.data_type != kind:
            distance = cast_to(distance, kind)
        moved = (exp.Sub if is_less else exp.Add)(this=tree, expression=exp.Paren(this=distance))
    scalar = reading.typed(moved, fields, node)
    return scalar if isinstance(kind, _RANGES) else replace(scalar, is_plain=False)


def _call(
    function: WindowExpression,
    arguments: tuple[Scalar, ...],
    where: Scalar | None,
    frame: Frame,
    fields: Sequence[Field],
    reading: QueryContext,
) -> WindowCall:
    text, name = spelled(function.node), function.name or ""
    ignores = function.ignores_nulls or _flagged(function)
    if name in AGGREGATES - ENDS:
        call = AggregateExpression.of(name, arguments, is_distinct=False, where=where, text=text)
        known = call.is_plain and not call.is_ordered and function.is_usual and not ignores
        kind = call.data_type if known else None
        return WindowCall(name, arguments, frame, 0, False, call, text, kind, known)
    number = _number(function, name)
    read = _with_default(arguments, function, fields, reading) if name in OFFSETS else arguments[:1]
    kind = _type_of(name, read)
    known = number is not None and kind is not None and not isinstance(kind, NullType)
    known = known and function.is_usual and where is None
    known = known and not (name in OFFSETS and ignores and not number)
    if not known:
        read = arguments if where is None else (*arguments, where)
    return WindowCall(name, read, frame, number or 0, ignores, None, text, kind, known)


def _flagged(function: WindowExpression) -> bool:
    """Return whether a second argument says that nulls do not count."""
    flag = function.arguments[1] if len(function.arguments) == 2 and function.name in ENDS else None
    return isinstance(flag, exp.Boolean) and bool(flag.this)


def _number(function: WindowExpression, name: str) -> int | None:
    """Return the number that a function takes beside its value; None if only Spark knows it."""
    given = function.arguments
    if name in RANKS or name == "row_number":
        return 0 if not given else None
    if name == "ntile":
        number = _whole(given[0]) if given else 1
        return number if number and number > 0 and len(given) < 2 else None
    if name in OFFSETS and 0 < len(given) <= 3:
        moved = _whole(given[1]) if len(given) > 1 else 1
        return -moved if moved is not None and name == "lag" else moved
    if name == "nth_value" and len(given) == 2:
        number = _whole(given[1])
        return number if number and number > 0 else None
    if name in ENDS and name != "nth_value":
        is_flag = len(given) == 2 and isinstance(given[1], exp.Boolean)
        return 0 if len(given) == 1 or is_flag else None
    return None


def _type_of(name: str, arguments: Sequence[Scalar]) -> DataType | None:
    if name in {"percent_rank", "cume_dist"}:
        return DoubleType()
    if name in RANKS or name in _NUMBERED:
        return IntegerType()
    return arguments[0].data_type if arguments and name in ENDS | OFFSETS else None


def _with_default(
    arguments: tuple[Scalar, ...],
    function: WindowExpression,
    fields: Sequence[Field],
    reading: QueryContext,
) -> tuple[Scalar, ...]:
    """Return the value and the default of LAG or LEAD, in one type."""
    if len(arguments) < 3 or isinstance(arguments[2].data_type, NullType):
        return arguments[:1]
    value, _, default, *_ = arguments
    if value.data_type is not None and default.data_type != value.data_type:
        tree = cast_to(default.expression.tree.copy(), value.data_type)
        default = reading.typed(tree, fields, function.arguments[2])
    return value, default


def _whole(node: exp.Expr) -> int | None:
    """Return a whole number that is written; None if it is none."""
    if isinstance(node, exp.Neg):
        number = _whole(node.this)
        return None if number is None else -number
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None


def tie(field: Field, text: str | None) -> Tie:
    """Return a column that orders rows; Spark orders no maps, and their text instead."""
    is_known = field.data_type is not None and is_ordered(field.data_type)
    return Tie(field, text if text is None or is_known else as_text(text))


def _add_ties(function: WindowExpression, ties: Sequence[Tie], reading: QueryContext) -> None:
    """Add the columns to the ORDER BY of a window in the text for Spark."""
    texts = [f"{one.text} ASC NULLS FIRST" for one in ties if one.text is not None]
    if len(texts) < len(ties):
        reading.untold.append(function.node)
    if not texts:
        return
    more = f", {', '.join(texts)}"
    tokens, text = reading.text.tokens, reading.text.text
    first = token_at(tokens, start_of(function.call))
    over = next(n for n in beside(tokens, first) if tokens[n].token_type is TokenType.OVER)
    if function.spec is function.node:
        at = _end_of_order(tokens, over + 1, function.frame)
        reading.edits.append(TextEdit(at, at, more))
        return
    names = [one for one in tokens[over + 1 : over + 3] if one.token_type is not TokenType.L_PAREN]
    named = token_at(tokens, start_of(function.spec.this))
    at, begin = _end_of_order(tokens, named + 2, function.frame), tokens[named + 2].start
    end = tokens[closing_of(tokens, named + 2)].start
    whole = f"{text[begin + 1 : at]}{more} {text[at:end]}"
    in_parentheses = tokens[over + 1].token_type is TokenType.L_PAREN
    clause_text = whole.strip() if in_parentheses else f"({whole.strip()})"
    reading.edits.append(TextEdit(names[0].start, names[0].end + 1, clause_text))


def _end_of_order(tokens: Sequence[Token], opening: int, frame: exp.Expr | None) -> int:
    """Return where an ORDER BY in the parentheses of a window ends in the text."""
    closing = closing_of(tokens, opening)
    words = {TokenType.ROWS, TokenType.RANGE} if frame is not None else set[TokenType]()
    inside = [n for n in beside(tokens[:closing], opening + 1) if tokens[n].token_type in words]
    return int(tokens[(inside[-1] if inside else closing) - 1].end) + 1
