"""Commands: a verb as typer calls it, with the common options, and its exit code.

The invariant: whatever happens, the user gets an answer on standard output, or one line on standard
error that says what is wrong and what to do. A traceback appears only with ``--debug``.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from deltaproduce.cli.answers.answer import FAILED, INTERRUPTED, WRONG_USE, Answer
from deltaproduce.cli.answers.console import print_answer, print_error, print_trace
from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.errors import (
    DefinitionError,
    DeltaProduceError,
    InvalidArgumentError,
    NotFoundError,
    ProducerError,
    packages_named,
)

Verb = Callable[..., Answer]
"""A function of an `Invocation`, and of typer's arguments and options."""

_WRONG_USE: Final = (InvalidArgumentError, NotFoundError, DefinitionError)
"""Errors that the caller fixes: in the command line, the project file or the definitions."""

_OF_ALL: Final = {
    "project_dir": (
        Annotated[
            Path,
            typer.Option(
                "--project-dir",
                envvar="DELTAPRODUCE_PROJECT_DIR",
                help="The folder with deltaproduce.toml.",
            ),
        ],
        Path(),
    ),
    "variables": (
        Annotated[
            list[str] | None,
            typer.Option("--var", metavar="NAME=VALUE", help="Override a variable of [vars]."),
        ],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print JSON.")], False),
    "debug": (
        Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")],
        False,
    ),
}
"""The options of all verbs: type and default."""


def command(verb: Verb) -> Callable[..., None]:
    """Turn a verb into a function for typer: it takes the common options too, and returns nothing.

    Args:
        verb: its first parameter is the `Invocation`; its docstring is the help.
    """

    def carried_out(**given: Any) -> None:  # noqa: ANN401 as the verb says
        call = Invocation(given.pop("project_dir"), tuple(given.pop("variables") or ()))
        as_json, debug = given.pop("as_json"), given.pop("debug")

        def printed() -> Answer:
            answer = verb(call, **given)
            print_answer(answer, as_json=as_json)
            return answer

        raise typer.Exit(_answer(printed, debug=debug).code)

    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in _OF_ALL.items()
    ]
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    carried_out.__signature__ = inspect.Signature([*named, *common])  # type: ignore[attr-defined]
    carried_out.__annotations__ = {one.name: one.annotation for one in (*named, *common)}
    carried_out.__name__, carried_out.__doc__ = verb.__name__, verb.__doc__
    return carried_out


def _answer(answer: Callable[[], Answer], *, debug: bool) -> Answer:
    """Return the answer of a verb, once it is printed.

    Raises:
        typer.Exit: the verb failed, or its answer cannot be printed; the error is printed.
    """
    try:
        with packages_named():
            return answer()
    except (typer.Exit, typer.TyperException, BrokenPipeError):  # typer handles these itself
        raise
    except KeyboardInterrupt as error:
        message = "interrupted: the store is as its last version has it; run the same again"
        _leave(error, message, INTERRUPTED, debug=debug)
    except DeltaProduceError as error:
        code = WRONG_USE if isinstance(error, _WRONG_USE) else FAILED
        _leave(error, _said(error), code, debug=debug)
    except Exception as error:  # noqa: BLE001 the user gets one line
        advice = "" if debug else "; --debug shows where it is from"
        _leave(error, f"{type(error).__name__}: {error}{advice}", FAILED, debug=debug)


def _leave(error: BaseException, message: str, code: int, *, debug: bool) -> NoReturn:
    if debug:
        print_trace("".join(traceback.format_exception(error)))
    print_error(message)
    raise typer.Exit(code) from error


def _said(error: DeltaProduceError) -> str:
    """Return the error's text; for a user's function, with a hint at where it failed."""
    if isinstance(error, ProducerError) and error.__cause__ is not None:
        return f"{error}; --debug shows where in the function"
    return str(error)
