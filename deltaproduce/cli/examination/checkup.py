"""The checkup of ``deltaproduce doctor``: what a machine and a project need, and the fixes.

Each check finds one thing, and none writes. A missing requirement of Spark is a failure if the
project names Spark, and is otherwise reported as not needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from deltaproduce.cli.commands.invocation import Invocation
from deltaproduce.errors import DeltaProduceError, packages_named
from deltaproduce.projects.file import ProjectFile
from deltaproduce.projects.sections import ProjectFileError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from deltaproduce.pipeline import Pipeline

_OLDEST_JAVA: Final = 17
_OF_ROWS: Final = ("pyarrow", "deltalake", "numpy")
_CLIENT: Final = "pyspark-client"
_EXTRAS: Final = ("spark", "postgres")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: what was checked.
        state: ``ok``, ``failed``, or ``not needed`` if it is missing and not required.
        found: what was found.
        mend: how to fix it; empty if nothing has to be fixed.
    """

    name: str
    state: Literal["ok", "failed", "not needed"]
    found: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the check as JSON values."""
        return asdict(self)


def checkup(call: Invocation, *, with_session: bool) -> tuple[Check, ...]:
    """Run all checks, except checks that depend on a failed one.

    Args:
        with_session: whether to start a Spark session and to use Delta in it.
    """
    file, checks = _file(call)
    needs_spark = with_session or (file is not None and file.engine == "spark")
    checks += [python(sys.version_info[:2]), *(package(name) for name in _OF_ROWS)]
    of_spark = [
        pyspark(),
        java(_java_says()),
        *_packages_of_spark(),
        jars(_jar_folders()),
        worker(),
    ]
    checks += of_spark if needs_spark else [_not_needed(one) for one in of_spark]
    if file is not None:
        checks += _of_project(call, file)
    if with_session and not any(one.state == "failed" for one in of_spark):
        checks.append(_tried("Spark session", lambda: _session(file)))
    return tuple(checks)


def python(running: tuple[int, int]) -> Check:
    """Check the version of Python that runs this."""
    number = ".".join(map(str, running))
    if (3, 11) <= running < (3, 14):
        return Check("Python", "ok", number)
    return Check("Python", "failed", number, "install Python 3.11, 3.12 or 3.13")


def package(name: str) -> Check:
    """Check that a package is installed in a version that the library supports."""
    wanted = _wanted(name)
    mend = f"pip install '{name}{wanted}'"
    installed = _installed(name)
    if installed is None:
        return Check(name, "failed", "not there", mend)
    fits = wanted.contains(installed, prereleases=True)
    return Check(name, "ok" if fits else "failed", installed, "" if fits else mend)


def pyspark() -> Check:
    """Check PySpark: in full, its client, or a cluster's own."""
    whole, client = _installed("pyspark"), _installed(_CLIENT)
    if whole and client:
        mend = f"pip uninstall pyspark {_CLIENT}; then install one of them"
        return Check("pyspark", "failed", f"{_CLIENT} too, which has the same files", mend)
    if whole or client:
        return package("pyspark" if whole else _CLIENT)
    if find_spec("pyspark") is not None:
        return Check("pyspark", "ok", "without a package: a cluster's own")
    mend = "pip install 'deltaproduce[spark]'"
    return Check("pyspark", "failed", "not there", mend)


def java(said: str | None) -> Check:
    """Check Java by the output of ``java -version``; None if there is none."""
    mend = f"install Java {_OLDEST_JAVA} or newer, and let JAVA_HOME name it"
    if said is None:
        return Check("Java", "failed", "not there", mend)
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        return Check("Java", "failed", said.strip().split("\n")[0][:100], mend)
    fits = int(match[1]) >= _OLDEST_JAVA
    return Check("Java", "ok" if fits else "failed", match[1], "" if fits else mend)


def jars(folders: tuple[Path, ...]) -> Check:
    """Check for Delta's jars where Spark's resolver keeps its downloads."""
    delta = _installed("delta-spark")
    if delta is None:
        return Check("Delta's jars", "failed", "no delta-spark", "install delta-spark")
    wanted = f"delta-spark_*-{delta}.jar"
    for folder in folders:
        jar = next(folder.rglob(f"*{wanted}"), None)
        if jar is not None:
            return Check("Delta's jars", "ok", str(jar))
    return Check("Delta's jars", "ok", f"no {wanted} yet: the first session downloads it")


def worker() -> Check:
    """Check that Spark's workers would run the same version of Python."""
    name = os.environ.get("PYSPARK_PYTHON")
    if name is None:
        return Check("workers' Python", "ok", f"this one, {sys.executable}")
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    said = _output([name, "-c", code])
    fits = said is not None and said.strip() == "{}.{}".format(*sys.version_info[:2])
    mend = "" if fits else f"set PYSPARK_PYTHON to {sys.executable}, or unset it"
    text = f"PYSPARK_PYTHON={name}: {said.strip() if said else 'does not run'}"
    return Check("workers' Python", "ok" if fits else "failed", text, mend)


def rights(location: str) -> Check:
    """Check that a store at a path can be written: the nearest existing folder decides."""
    place = Path(location)
    there = next(one for one in (place, *place.parents) if one.exists())
    if not there.is_dir():
        return Check("store", "failed", f"{there} is a file", "name another place for the store")
    if os.access(there, os.R_OK | os.W_OK | os.X_OK):
        text = "can be written" if there == place else "will be made by the first run"
        return Check("store", "ok", f"{location} {text}")
    return Check("store", "failed", f"no right to write in {there}", "get it, or move the store")


def _file(call: Invocation) -> tuple[ProjectFile | None, list[Check]]:
    try:
        file = call.file
    except ProjectFileError as error:
        return None, [Check("project file", "failed", "none that is right", str(error))]
    return file, [Check("project file", "ok", str(file.path))]


def _of_project(call: Invocation, file: ProjectFile) -> Iterator[Check]:
    from deltaproduce.projects.file import has_scheme

    if "/" in file.location and not has_scheme(file.location):
        yield rights(file.location)
    loaded = _tried("pipeline", lambda: _stages(call.pipeline))
    yield loaded
    if loaded.state == "ok" and file.engine == "local":
        yield _tried("version log", lambda: _head(call))
        yield _tried("inputs", lambda: _inputs(call, file))


def _tried(name: str, look: Callable[[], str]) -> Check:
    """Return a check that fails with the library's error, which names the fix."""
    try:
        with packages_named():
            return Check(name, "ok", look())
    except DeltaProduceError as error:
        return Check(name, "failed", type(error).__name__, str(error))


def _stages(pipeline: Pipeline) -> str:
    return f"{pipeline.name}: {len(pipeline.stages)} stages"


def _head(call: Invocation) -> str:
    with call.store() as store:
        return f"the newest version is {store.head.number}"


def _inputs(call: Invocation, file: ProjectFile) -> str:
    from deltaproduce.cli.examination.checks import problems

    with call.store() as store:
        input_problems = problems(file, call.pipeline, store)
    if input_problems:
        raise ProjectFileError("; ".join(one.message for one in input_problems))
    return f"{len(file.inputs)} can be read"


def _session(file: ProjectFile | None) -> str:
    from deltaproduce.engines.spark.sessions.session import local_session
    from deltaproduce.projects.sessions import session

    of_project = None if file is None else session(file)
    spark = local_session() if of_project is None else of_project
    return f"Spark {spark.version} runs, with Delta"


def _not_needed(one: Check) -> Check:
    if one.state == "ok":
        return one
    return Check(one.name, "not needed", one.found, f'for engine = "spark": {one.mend}')


def _packages_of_spark() -> Iterator[Check]:
    """Yield checks of the packages that only a session needs."""
    if _installed(_CLIENT) and not _installed("pyspark"):
        mend = f"pip uninstall {_CLIENT}; pip install 'deltaproduce[spark]'"
        yield Check("Spark", "failed", f"{_CLIENT} has none", mend)
    yield package("delta-spark")
    yield package("pandas")


def _wanted(name: str) -> SpecifierSet:
    """Return the supported versions of a package, always or with an extra for users."""
    from packaging.requirements import Requirement

    for one in map(Requirement, requires("deltaproduce") or ()):
        places = ({"extra": extra} for extra in _EXTRAS)
        if one.name == name and (one.marker is None or any(map(one.marker.evaluate, places))):
            return one.specifier
    return Requirement(name).specifier


def _installed(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java_says() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return _output([os.path.join(home, "bin", "java") if home else "java", "-version"])


def _jar_folders() -> tuple[Path, ...]:
    return (*sorted(Path.home().glob(".ivy2*")), Path.home() / ".m2")


def _output(command: list[str]) -> str | None:
    """Return what a program prints; None if it does not run."""
    if shutil.which(command[0]) is None:
        return None
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout + ran.stderr if ran.returncode == 0 else None
