"""Summaries: the library's values as answers.

Pure: turns a value's fields, or its ``as_dict``, into JSON and tables, for everything that verbs
print about versions, plans, findings and the like.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltaproduce.cli.answers.answer import DONE, FAILED, NOTHING_TO_DO, Answer
from deltaproduce.cli.inputs.positions import Again
from deltaproduce.shown.table import UNKNOWN, Cell, Table
from deltaproduce.shown.update_ids import Digests, description

if TYPE_CHECKING:
    from pathlib import Path

    from deltaproduce.model.checks.results import CheckResults
    from deltaproduce.operations.reports.plans import Plan, PlannedStep
    from deltaproduce.operations.vacuum import Vacuumed
    from deltaproduce.operations.verifying.findings import Finding
    from deltaproduce.postgres.sync import Synced
    from deltaproduce.projects.checks import Problem
    from deltaproduce.projects.dbt.folder import CarriedOver
    from deltaproduce.reading.remains import Forgotten
    from deltaproduce.shown.tasks import Run, Task
    from deltaproduce.storage.versions import Version
    from deltaproduce.sync.comparing.results import ComparedTables

_SHOWN_TASKS: Final = 10
_HEADINGS: Final = ("stage", "mode", "keys", "changed", "added", "removed", "rows", "seconds")


def version_line(version: Version) -> str:
    """Return one version in a line."""
    if version.committed_at is None:
        return "version 0: there is none yet"
    when = version.committed_at.strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"version {version.number}, {version.operation}, {when}"


def versions_published(
    before: Version, *versions: Version, again: Sequence[Again] = (), exit_code: bool = False
) -> Answer:
    """Return what an operation did: the versions that it published, or that it had nothing to do.

    Args:
        before: the head before the operation.
        versions: the versions after it, oldest first; the head alone if it published none.
        again: the files that were sent again.
        exit_code: as for `nothing_is_3`.
    """
    last = versions[-1]
    is_new = last.number > before.number
    data: dict[str, Any] = {"made": is_new, "version": _version(last, last.stages)}
    if again:
        data["sent_again"] = [one.as_dict() for one in again]
    noticed = [one.sentence for one in again]
    if not is_new:
        answer = Answer(data, (*noticed, f"nothing to do: {version_line(last)}"))
        return nothing_is_3(answer, is_new, exit_code=exit_code)
    return Answer(
        data, (*noticed, *(part for version in versions for part in _stage_tables(version)))
    )


def _stage_tables(version: Version) -> Iterator[Table | str]:
    """Yield what one version did to its stages."""
    figures = version.stages
    reached = {name: one for name, one in figures.items() if one.mode != "skipped"}
    rows = tuple((name, *one.in_short().values()) for name, one in reached.items())
    left = len(figures) - len(reached)
    if rows:
        yield Table("", _HEADINGS, rows)
    if left:
        yield f"{left} {'stage' if left == 1 else 'stages'} not reached"
    yield from (f"broken check: {one.sentence}" for one in version.checks if one.broken)
    yield version_line(version)


def checks_evaluated(results: CheckResults) -> Answer:
    """Return what the checks of a store find; a failure if one of severity error is broken."""
    if not results:
        return Answer(results.as_dict(), ("there are no checks",))
    broken = sum(one.broken for one in results)
    said = f"{broken} of {len(results)} checks broken" if broken else f"all {len(results)} hold"
    return Answer(results.as_dict(), (*results.as_tables(), said), FAILED if results.failed else 0)


def with_dirty(answer: Answer, dirty: Sequence[str], day: str | None) -> Answer:
    """Add the tasks that a run of no day leaves as they are, and how to run them.

    Args:
        dirty: the tasks that are dirty at the newest day for which tasks ran.
        day: that day; None if no task ever ran.
    """
    data = {**answer.data, "dirty": list(dirty)}
    if day is None:
        said = "no task ever ran: deltaproduce run --as-of DAY runs those of a day"
    elif dirty:
        more = f" and {len(dirty) - _SHOWN_TASKS:,} more" if len(dirty) > _SHOWN_TASKS else ""
        named = ", ".join(dirty[:_SHOWN_TASKS])
        said = f"left dirty: {named}{more}; deltaproduce run --as-of {day} runs them"
    else:
        return Answer(data, answer.parts, answer.code)
    return Answer(data, (*answer.parts, said), answer.code)


def nothing_is_3(answer: Answer, done: bool, *, exit_code: bool) -> Answer:
    """Return the answer, with the exit code for nothing to do if ``--exit-code`` asks for it.

    Args:
        done: whether anything was done, or will be.
        exit_code: whether ``--exit-code`` is given.
    """
    code = NOTHING_TO_DO if exit_code and not done else DONE
    return Answer(answer.data, answer.parts, code)


def versions(all_versions: Sequence[Version], stages: Collection[str]) -> Answer:
    """Return all versions, oldest first."""
    rows = tuple(
        (
            version.number,
            "" if version.committed_at is None else f"{version.committed_at:%Y-%m-%d %H:%M:%S %Z}",
            version.operation,
            sum(version.stages[name].mode != "skipped" for name in _of(version, stages)),
            sum(version.stages[name].changed_keys for name in _of(version, stages)),
            description(version.update_id),
        )
        for version in all_versions
    )
    headings = ("version", "time", "operation", "stages", "changed keys", "update id")
    table = Table("", headings, rows) if rows else "no versions yet: deltaproduce run makes one"
    return Answer([_version(version, stages) for version in all_versions], (table,))


def planned(
    head: Version,
    plan: Plan,
    stages: Collection[str],
    files: Digests,
    tasks: Run | None,
    again: Sequence[Again] = (),
) -> Answer:
    """Return what a run would do.

    Args:
        files: source -> its new change files.
        tasks: what it would do to the tasks of a day, as far as the existing rows tell.
        again: those of the new files that were sent again.
    """
    chosen = [step for step in plan if step.stage.name in stages]
    data: dict[str, Any] = {
        "head": head.number,
        "new_files": {source: list(names) for source, names in files.items()},
        "snapshots": list(plan.compared),
        "steps": [step.as_dict() for step in chosen],
        "losses": [loss.as_dict() for loss in plan.losses],
    }
    foreseen = _foreseen(tasks) if tasks is not None else {}
    if tasks is not None:
        data["tasks"] = foreseen
    if plan.checks:
        data["checks"] = [one.as_dict() for one in plan.checks]
    if again:
        data["sent_again"] = [one.as_dict() for one in again]
    noticed = [one.sentence for one in again]
    rows = _task_rows(foreseen)
    if not chosen and not rows:
        said = "only the day of the store moves" if plan.moves else "nothing to do"
        return Answer(data, (*noticed, *_planned_checks(plan), f"{said}: {version_line(head)}"))
    parts = [*_planned(head, plan, chosen, files)] if chosen else []
    parts += _planned_checks(plan)
    parts += [Table("", ("task", ""), rows)] if rows else []
    parts += noticed
    parts.append(f"nothing was written; the newest is {version_line(head)}")
    return Answer(data, tuple(parts))


def _planned(
    head: Version, plan: Plan, steps: Sequence[PlannedStep], files: Digests
) -> Iterator[Table | str]:
    """Yield what a run would do to some stages."""
    new = tuple((source, name) for source, names in files.items() for name in names)
    if new:
        yield Table("new files", ("source", "file"), new)
    if plan.compared:
        compared = tuple((name, *counts) for name, counts in plan.compared.items())
        yield Table(
            "compared in full", ("source", "keys differ", "rows added", "removed"), compared
        )
    rows = tuple(
        (step.stage.name, step.how, UNKNOWN if step.keys is None else step.keys, step.reason)
        for step in steps
    )
    notes = [note for step in steps for note in step.notes]
    notes += [f"lost: {loss.sentence}" for loss in plan.losses]
    yield Table("", ("stage", "how", "keys", "why"), rows, tuple(notes))
    yield from (table for step in steps for table in step.diffs(head.number))


def _planned_checks(plan: Plan) -> list[Table]:
    """Return the checks that a run would evaluate anew, or that the head breaks, if any."""
    from deltaproduce.operations.reports.planned_checks import table_of

    wanted = [one for one in plan.checks if one.cause != "unchanged" or one.broken]
    return [table_of(wanted)] if wanted else []


def checked(
    stages: Sequence[str], problems: Sequence[Problem], unchecked: Sequence[str] = ()
) -> Answer:
    """Return the problems of a project: exit code 1 if one of them is an error.

    Args:
        unchecked: the stages that read what is refused.
    """
    data: dict[str, Any] = {
        "stages": list(stages),
        "problems": [one.as_dict() for one in problems],
    }
    rows = tuple((one.stage, one.message) for one in problems)
    code = FAILED if any(one.severity == "error" for one in problems) else DONE
    parts: list[Table | str] = [Table("", ("stage", "problem"), rows)]
    if unchecked:
        data["unchecked"] = list(unchecked)
        parts.append(f"not checked, as they read what is refused: {', '.join(unchecked)}")
    return Answer(data, tuple(parts), code)


def carried_over(folder: Path, written: CarriedOver) -> Answer:
    """Return what became of a dbt project, with what is left out, and why."""
    left_out = [(one.what, one.file, one.reason) for one in written.left_out]
    data = {
        "folder": str(folder),
        "files": list(written.files),
        "left_out": [dict(zip(("what", "file", "reason"), one, strict=True)) for one in left_out],
    }
    parts: list[Table | str] = [f"made in {folder}: {written.stages} stages"]
    if left_out:
        parts.append(Table("not carried over", ("what", "file", "reason"), tuple(left_out)))
    parts.append(f"next: read {folder / 'FROM_DBT.md'}; cd {folder}; deltaproduce run")
    return Answer(data, tuple(parts))


def findings(faults: Sequence[Finding], stages: Collection[str]) -> Answer:
    """Return what is wrong with tables: exit code 1 if anything is."""
    wrong = [one for one in faults if one.stage in stages or not one.stage]
    data = [finding.as_dict() for finding in wrong]
    if not wrong:
        return Answer(data, ("nothing is wrong",))
    rows = tuple((one.stage or "(all)", one.table, one.what, one.wrong) for one in wrong)
    mends = dict.fromkeys(one.mend for one in wrong)
    mend = f"mend: {'; '.join(mends)}".replace("store.repair()", "deltaproduce repair")
    return Answer(data, (Table("", ("stage", "table", "what", "wrong"), rows), mend), FAILED)


def forgotten(outcome: Forgotten) -> Answer:
    """Return what forgetting a key did, and where it can still be read."""
    line = version_line(outcome.version)
    if not outcome.remains:
        return Answer(outcome.as_dict(), ("it can be read nowhere any more", line))
    rows = tuple(
        (one.stage, one.table, ", ".join(map(str, one.versions))) for one in outcome.remains
    )
    table = Table("it can still be read in", ("stage", "table", "versions"), rows)
    mend = "deltaproduce vacuum --keep-versions 1 removes them"
    return Answer(outcome.as_dict(), (table, mend, line))


def vacuumed(outcome: Vacuumed, *, dry_run: bool) -> Answer:
    """Return what a vacuum removed, or would remove."""
    numbers = ", ".join(map(str, outcome.versions)) or "none"
    would = "would be " if dry_run else ""
    parts = [
        f"versions {would}dropped: {numbers}",
        f"tables {would}removed: {', '.join(outcome.tables) or 'none'}",
        f"files {would}removed: {outcome.files:,}, {outcome.bytes:,} bytes",
    ]
    return Answer(outcome.as_dict(), (*parts, *outcome.paths))


def graph(feeders: Mapping[str, Sequence[str]], kinds: Mapping[str, str]) -> Answer:
    """Return the stages, and the feeders of each."""
    data = [
        {"stage": name, "kind": kinds[name], "feeders": list(fed)} for name, fed in feeders.items()
    ]
    rows = tuple((name, kinds[name], ", ".join(fed)) for name, fed in feeders.items())
    return Answer(data, (Table("", ("stage", "kind", "made from"), rows),))


def task_graph(tasks: Sequence[Task], *, drawn: bool) -> Answer:
    """Return tasks, and the partitions that each reads.

    Args:
        drawn: whether as a Mermaid flowchart.
    """
    reads = {str(task): [str(one) for one in task.dependencies] for task in tasks}
    states = {str(task): task.state for task in tasks}
    data = [
        {"task": name, "state": states[name], "dependencies": feeders}
        for name, feeders in reads.items()
    ]
    if not drawn:
        rows = tuple((name, states[name], ", ".join(feeders)) for name, feeders in reads.items())
        return Answer(data, (Table("", ("task", "state", "reads"), rows),))
    others = {one: list[str]() for feeders in reads.values() for one in feeders}
    return Answer(data, (mermaid({**others, **reads}),))


_FORESEEN: Final = {"done": "would run", "blocked": "would wait", "dropped": "would be dropped"}


def rehearsed(run: Run) -> Answer:
    """Return what a run of tasks would do."""
    data = _foreseen(run)
    rows = _task_rows(data)
    if not rows:
        return Answer(data, ("nothing to do",))
    return Answer(data, (Table("", ("task", ""), rows), "nothing was written"))


def _foreseen(run: Run) -> dict[str, list[str]]:
    return {part: [str(one) for one in getattr(run, part)] for part in (*_FORESEEN, "left")}


def _task_rows(foreseen: Mapping[str, Sequence[str]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (name, said) for part, said in _FORESEEN.items() for name in foreseen.get(part, ())
    )


def mermaid(feeders: Mapping[str, Sequence[str]]) -> str:
    """Return the graph of these stages as a Mermaid flowchart."""
    numbers = {name: f"s{number}" for number, name in enumerate(feeders)}
    nodes = [f'  {number}["{_quoted(name)}"]' for name, number in numbers.items()]
    edges = [
        f"  {numbers[feeder]} --> {numbers[name]}"
        for name, fed in feeders.items()
        for feeder in fed
        if feeder in numbers
    ]
    return "\n".join(["flowchart LR", *nodes, *edges])


def explained(about: Mapping[str, Any]) -> Answer:
    """Return a stage's definition, its state in the head, and what the next version would do."""
    flat = {**about, **(about["figures"] or {})}
    rows = tuple(
        (name.replace("_", " "), _in_a_line(value))
        for name, value in flat.items()
        if name not in ("stage", "figures", "operators")
    )
    steps = tuple(
        (place, one["operator"], one["mode"], one["reason"], ", ".join(map(str, one["inputs"])))
        for place, one in enumerate(about["operators"])
    )
    columns = ("", "operator", "mode", "reason", "reads")
    parts = Table(str(about["stage"]), ("", ""), rows), Table("operators", columns, steps)
    return Answer(dict(about), parts)


def _in_a_line(value: object) -> Cell:
    match value:
        case None | int() | float():
            return value
        case dict():
            return ", ".join(f"{name} {part}" for name, part in value.items())
        case list():
            return ", ".join(map(str, value))
    return str(value)


def _version(version: Version, stages: Collection[str]) -> dict[str, Any]:
    fields = version.as_dict()
    return {**fields, "stages": {name: fields["stages"][name] for name in _of(version, stages)}}


def _of(version: Version, stages: Collection[str]) -> list[str]:
    """Return the version's stages that are shown; stages that the pipeline dropped are not."""
    return [name for name in version.stages if name in stages]


def _quoted(name: str) -> str:
    return name.replace('"', "#quot;")


def synced(outcome: Synced) -> Answer:
    """Return what a sync did to each table of a database."""
    columns = ("table", "rows", "deleted", "inserted", "seconds", "all rows because")
    rows = tuple(
        (one.table, one.rows, one.deleted, one.inserted, round(one.seconds, 2), one.reason)
        for one in outcome.tables
    )
    line = f"all of version {outcome.version}"
    return Answer(outcome.as_dict(), (Table("", columns, rows), line))


def compared(outcome: ComparedTables) -> Answer:
    """Return how stages differ from the tables of another database: exit code 1 if any does."""
    parts: list[Table | str] = [*outcome.as_tables()]
    if outcome.missing:
        named = ", ".join(outcome.missing)
        parts.append(f"not compared, since version {outcome.version} has no such stage: {named}")
    count = len(outcome.tables)
    parts.append(
        f"{outcome.differing} of {count} tables differ"
        if outcome.differing
        else f"all {count} tables are equal"
    )
    return Answer(outcome.as_dict(), tuple(parts), FAILED if outcome.differing else DONE)
