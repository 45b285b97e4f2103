"""The page: renders a report as one self-contained HTML file.

Pure, except that it reads the package's own files. The invariant: the page requests nothing from
anywhere, and no text of a report becomes markup or code in it: the template escapes its values, and
the browser runs only scripts whose digests the page names.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from deltaproduce.report import sentences
from deltaproduce.report.figures import FORMATS
from deltaproduce.report.model import Report, total

SHOWN: Final = 100
"""The table of versions shows this many of the newest; charts show all."""

_ASSETS: Final = "deltaproduce.report"
_LIBRARIES: Final = ("dagre-3.1.3", "uPlot-1.6.32")
_SOURCE_MAP: Final = "//# sourceMappingURL="


def html(report: Report) -> str:
    """Return the report as an HTML page that opens from a disk."""
    scripts = _scripts()
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            data=_drawn(report),
            happened=sentences.happened(report),
            causes=sentences.causes(report),
            how=sentences.how,
            newest=[*reversed(report.versions[-SHOWN:])],
            bytes=total(stage.bytes for stage in report.stages),
            reached=sum(
                stage.step is not None and stage.step.mode != "skipped" for stage in report.stages
            ),
            style=Markup(_asset("uPlot-1.6.32.min.css") + _asset("page.css")),
            scripts=[Markup(script) for script in scripts],
            digests=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        )
    )


def _drawn(report: Report) -> dict[str, Any]:
    """Return the data that scripts draw: stage edges by position, and versions by column."""
    places = {stage.name: place for place, stage in enumerate(report.stages)}
    versions = {
        name: [getattr(version, name) for version in report.versions]
        for name in (
            "number",
            "committed_at",
            "operation",
            "update_id",
            "seconds",
            "affected_keys",
            "changed_keys",
            "rows",
        )
    }
    return {
        "edges": [
            [places[feeder], places[stage.name]]
            for stage in report.stages
            for feeder in stage.feeders
        ],
        "versions": versions,
        "chosen": report.version.number,
    }


def _digest(script: str) -> str:
    """Return a script's name in a content security policy: the base64 of its SHA-256."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    """Return the template environment, which escapes values; a missing value is an error."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_asset),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FORMATS
    return environment


@cache
def _scripts() -> tuple[str, ...]:
    """Return the libraries, each after its licence, and the page's own script."""
    return (*map(_library, _LIBRARIES), _asset("page.js"))


def _library(name: str) -> str:
    licence, lines = _asset(f"{name}.LICENSE.txt"), _asset(f"{name}.min.js").splitlines()
    code = "\n".join(line for line in lines if not line.startswith(_SOURCE_MAP))
    return f"/*! {name}\n{licence}*/\n{code}\n"


@cache
def _asset(name: str) -> str:
    """Return a file of the package as text."""
    return files(_ASSETS).joinpath("assets", name).read_text(encoding="utf-8")
