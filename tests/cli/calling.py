"""The command in this process, as tests and their fixtures call it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from typer.testing import CliRunner, Result

from deltaproduce.cli.app import application


@contextmanager
def forgotten_modules() -> Iterator[None]:
    """Modules of a project are forgotten behind it: the next has others of the same name."""
    path, modules = [*sys.path], {*sys.modules}
    yield
    for name in {*sys.modules} - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "pytest" in file and "site-packages" not in file:
            del sys.modules[name]
    sys.path[:] = path


def called(*args: object, code: int = 0) -> Result:
    """The command, with an exit code that it must have, 0 unless another is given."""
    arguments = [str(one) for one in args]
    result = CliRunner().invoke(application(arguments), arguments)
    assert result.exit_code == code, (args, result.output, result.exception)
    return result
