"""Expecting: how a stage hands what is expected of its rows to its pipeline.

The invariant: a stage knows the pipeline that it was added to, and a copy or a pickle of it knows
none, so sending a stage to a worker sends no pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from deltaproduce.errors import DefinitionError
from deltaproduce.model.checks.definitions import Severity


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a user expects of the rows of a stage; see `Expecting.expect`."""

    not_null: str | None = None
    unique: str | None = None
    where: str | None = None
    among: Mapping[str, Sequence[object]] | None = None
    refers: Mapping[str, str] | None = None
    severity: Severity = "error"
    at_most: int = 0
    name: str | None = None


Expect: TypeAlias = Callable[[Any, Expectation], None]
"""Defines the checks of an expectation of a stage."""


class Home:
    """Where a stage is defined; nowhere until it is added to a pipeline."""

    __slots__ = ("_expect",)

    def __init__(self) -> None:
        self._expect: Expect | None = None

    def __reduce__(self) -> tuple[type[Home], tuple[()]]:
        return Home, ()

    def be(self, expect: Expect) -> None:
        """Make a pipeline the home.

        Args:
            expect: its method that defines checks.
        """
        self._expect = expect

    def expect(self, stage: Any, expectation: Expectation) -> None:  # noqa: ANN401 above the graph
        """Define the checks of an expectation.

        Raises:
            DefinitionError: there is no home; with `stage`.
        """
        if self._expect is None:
            message = f"stage {stage.name!r} is in no pipeline; add it to one, then expect of it"
            raise DefinitionError(message, stage=stage.name)
        self._expect(stage, expectation)


class Expecting:
    """A stage of which a user can expect something."""

    __slots__ = ()

    home: Home

    def expect(
        self,
        *,
        not_null: str | None = None,
        unique: str | None = None,
        where: str | None = None,
        among: Mapping[str, Sequence[object]] | None = None,
        refers: Mapping[str, str] | None = None,
        severity: Severity = "error",
        at_most: int = 0,
        name: str | None = None,
    ) -> Self:
        """Define checks of the stage's rows; a version that breaks one is not published.

        Each rule is a check of its own, named ``<stage>_<rule>_<column>``. Null passes all rules
        but ``not_null``, as in SQL. A change costs what it costs a query (`Pipeline.sql`) that
        follows it.

        Args:
            not_null: columns that are never null, such as ``"customer_id"``; one check each.
            unique: columns whose values together are in one row only; one check, with a row for
                each repeated value.
            where: a condition in SQL that no row makes false.
            among: column -> the values that it may have.
            refers: column -> where its values must be, as ``"stage.column"``.
            severity: ``"error"``: a version that breaks the check is not published, and
                `Store.update` raises a ChecksFailedError. ``"warn"``: it is published, and its
                ``checks`` say so. ``"quarantine"``, for ``not_null``, ``where`` and ``among`` of a
                source whose rows you give: rows that break the rule are set aside in the stage
                ``<source>__rejected``, and the others are taken.
            at_most: how many rows may break the rule.
            name: the name of the check, if there is one rule only.

        Returns:
            The stage.

        Raises:
            DefinitionError: a rule, a column or a name is refused; with `stage` and `column`.
        """
        expectation = Expectation(not_null, unique, where, among, refers, severity, at_most, name)
        self.home.expect(self, expectation)
        return self
