"""Functions of distinct values: over groups of these, so that each value is there once.

The groups are those of the function and the value, which a table keeps with the number of their
rows. So a change of a row costs its value, where all values of its group would be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.relations import AggregateRelation, Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """A GROUP BY whose functions are all of the distinct values of one expression.

    Attributes:
        aggregate: the GROUP BY.
        value: the field of the values.
        argument: the expression.
    """

    aggregate: AggregateRelation
    value: Field
    argument: Scalar

    @staticmethod
    def of(aggregate: AggregateRelation, number: int) -> DistinctValues | None:
        """Return a GROUP BY as such a one; None if it is another.

        Args:
            number: that of the field that is added.
        """
        calls = [call for _, call in aggregate.calls]
        texts = {tuple(argument.expression.text for argument in call.arguments) for call in calls}
        is_plain = all(call.is_distinct and call.where is None for call in calls)
        if len(texts) != 1 or not is_plain or len(calls[0].arguments) != 1:
            return None
        (argument,) = calls[0].arguments
        return DistinctValues(aggregate, Field(f"value#{number}", argument.data_type), argument)

    @property
    def groups(self) -> AggregateRelation:
        """The distinct values of each group."""
        keys = (*self.aggregate.keys, Output(self.value, self.argument))
        return AggregateRelation(self.aggregate.input, keys, ())

    def over(self, groups: Relation) -> AggregateRelation:
        """Return the GROUP BY.

        Args:
            groups: a relation with the rows and fields of the groups.
        """
        calls = tuple((result, self._of_values(call)) for result, call in self.aggregate.calls)
        keys = tuple(Output.copy(key.field) for key in self.aggregate.keys)
        return AggregateRelation(groups, keys, calls)

    def _of_values(self, call: AggregateExpression) -> AggregateExpression:
        """Return a call for distinct values as one for each of them."""
        argument = Scalar.of(self.value.tree, [self.value], call.arguments[0].text)
        return replace(call, arguments=(argument,), is_distinct=False)
