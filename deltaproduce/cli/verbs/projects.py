"""Verbs on a project: create, check and draw it, explain a stage, and check the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from deltaproduce.cli.answers import summaries
from deltaproduce.cli.answers.answer import FAILED, Answer
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.cli.commands.options import AsOf, Folder, Select, Stage
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.shown.table import Table


def init(
    call: Invocation,
    name: Folder,
    from_dbt: Annotated[
        Path | None,
        typer.Option("--from-dbt", metavar="FOLDER", help="Carry over the dbt project there."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="The target of dbt that Jinja sees."),
    ] = None,
) -> Answer:
    """Create a sample project in a new folder, or the one that a dbt project becomes."""
    folder = call.folder / name
    if from_dbt is not None:
        from deltaproduce.projects.dbt.folder import write as carried_over

        return summaries.carried_over(folder, carried_over(folder, call.folder / from_dbt, target))
    from deltaproduce.cli.sample.project import write

    if target is not None:
        message = "--target is of a dbt project: name its folder with --from-dbt"
        raise InvalidArgumentError(message, argument="--target")
    paths = write(folder)
    said = (f"made in {folder}: {', '.join(paths)}", f"next: cd {folder}; deltaproduce run")
    return Answer({"folder": str(folder), "files": list(paths)}, said)


def check(
    call: Invocation,
    select: Select = None,
    data: Annotated[
        bool,
        typer.Option("--data", help="Evaluate the checks over the store's rows, and nothing else."),
    ] = False,
) -> Answer:
    """Check project file, definitions and input files. Reads few rows, and writes nothing.

    With --data it evaluates the project's checks over the newest version, and fails if one of
    severity error is broken.
    """
    if data:
        if select:
            raise typer.BadParameter("--data evaluates all checks: leave out --select")
        with call.store() as store:
            return summaries.checks_evaluated(store.check())
    from deltaproduce.cli.examination.checks import check as examined

    file = call.file
    pipeline, outcome = examined(file)
    if pipeline is None:  # there is nothing to select from
        return summaries.checked([], outcome.problems, outcome.unchecked)
    stages = call.selected(select, pipeline.graph())
    problems = [
        one for one in outcome.problems if not {one.stage, *one.users}.isdisjoint((*stages, ""))
    ]
    if not problems:
        well = f"all is well: {len(stages)} stages, {len(file.inputs)} inputs"
        return Answer({"stages": list(stages), "problems": []}, (well,))
    unchecked = [name for name in outcome.unchecked if name in stages]
    return summaries.checked(stages, problems, unchecked)


def graph(
    call: Invocation,
    select: Select = None,
    form: Annotated[
        Literal["table", "mermaid"], typer.Option("--format", help="The output format.")
    ] = "table",
    as_of: AsOf = None,
) -> Answer:
    """List or draw the stages and their feeders; with --as-of, the tasks of a day."""
    from deltaproduce.cli.selection import feeders_of

    graph = call.pipeline.graph()
    feeders = feeders_of(graph)
    chosen = {name: feeders[name] for name in call.selected(select, graph)}
    if as_of is not None:
        with call.store() as store:
            tasks = [task for task in store.tasks(as_of=as_of) if task.stage in chosen]
        return summaries.task_graph(tasks, drawn=form == "mermaid")
    answer = summaries.graph(chosen, {name: graph.stage(name).kind.word for name in chosen})
    drawn = (summaries.mermaid(chosen),) if form == "mermaid" else answer.parts
    return Answer(answer.data, drawn)


def explain(call: Invocation, stage: Stage) -> Answer:
    """Show a stage's definition, its figures, and what the next update would do to it."""
    from deltaproduce.cli.examination.explanations import explanation

    with call.store() as store:
        return summaries.explained(explanation(call.pipeline.graph(), stage, store))


def doctor(
    call: Invocation,
    session: Annotated[
        bool, typer.Option("--session", help="Also start a Spark session, and use Delta in it.")
    ] = False,
) -> Answer:
    """Check this machine and this project, and say how to fix what is missing."""
    from deltaproduce.cli.examination.checkup import checkup

    diagnosis = checkup(call, with_session=session)
    rows = tuple((one.state, one.name, one.found, one.mend) for one in diagnosis)
    failed = any(one.state == "failed" for one in diagnosis)
    table = Table("", ("", "what", "found", "mend"), rows)
    data = [one.as_dict() for one in diagnosis]
    said = "something has to be mended" if failed else "all that is needed is there"
    return Answer(data, (table, said), FAILED if failed else 0)
