"""The application: all verbs as one command with subcommands.

Help is plain text, in the groups of the table: drawing it with rich would take longer than
everything else that ``--help`` does. Most of the time of a verb that reads is that of a start, so
only the verb that is called is assembled, and Python does not look for garbage meanwhile.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from deltaproduce.cli.answers.answer import INTERRUPTED
from deltaproduce.cli.commands.command import command
from deltaproduce.cli.verbs import VERBS

_OBJECTS_OF_A_START: Final = 100_000
"""More than the objects of all modules that a verb imports: they stay, so none is garbage."""


class Verbs(TyperGroup):
    """The verbs, which help shows in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 typer's own
        """Write the groups of verbs, with the first sentence of each verb's help."""
        for group, verbs in VERBS.items():
            with formatter.section(group):
                formatter.write_dl(
                    [
                        (one.__name__, self.commands[one.__name__].get_short_help_str(90))
                        for one in verbs
                    ]
                )


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"deltaproduce {version('deltaproduce')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_version, help="Print the version."),
    ] = False,
) -> None:
    """Incremental views on Delta Lake: derived tables that stay correct as inputs change."""


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the command with all verbs; with one only if the arguments begin with it."""
    app = typer.Typer(
        cls=Verbs,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        help=_root.__doc__,
    )
    app.callback()(_root)
    verbs = {verb.__name__: verb for verbs in VERBS.values() for verb in verbs}
    called = [name for name in arguments[:1] if name in verbs]
    for name in called or verbs:
        app.command(name)(command(verbs[name]))
    return app


def main() -> None:
    """Run the command ``deltaproduce``."""
    gc.set_threshold(_OBJECTS_OF_A_START)
    try:
        application(sys.argv[1:])(prog_name="deltaproduce")
    except KeyboardInterrupt:  # during imports; a verb reports it itself
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the process ends: nothing is looked for among what it leaves
