"""The page: a report as one HTML file, with all that it needs in it.

Pure but for reading the package's own files. The invariant: the page asks for nothing from
anywhere, and no text of a report becomes markup or code in it: the template escapes what it is
given, and the browser runs no script but those whose digests the page names.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from deltaproduce.report.figures import FORMATS
from deltaproduce.report.model import Report, total

SHOWN: Final = 100
"""So many of the newest versions are in the table of versions; charts have all of them."""

_ASSETS: Final = "deltaproduce.report"
_LIBRARIES: Final = ("dagre-3.1.3", "uPlot-1.6.32")
_SOURCE_MAP: Final = "//# sourceMappingURL="


def html(report: Report) -> str:
    """The report as a page: HTML that opens from a disk."""
    scripts = _scripts()
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            data=_drawn(report),
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
    """What scripts draw: the edges between stages by their places, and versions by columns."""
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
    """As a content security policy names a script: the base64 of its SHA-256."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    """The templates: whatever is put into them is escaped, and what they lack is an error."""
    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_asset),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= FORMATS
    return found


@cache
def _scripts() -> tuple[str, ...]:
    """The libraries, each behind its licence, and the page's own script."""
    return (*map(_library, _LIBRARIES), _asset("page.js"))


def _library(name: str) -> str:
    licence, lines = _asset(f"{name}.LICENSE.txt"), _asset(f"{name}.min.js").splitlines()
    code = "\n".join(line for line in lines if not line.startswith(_SOURCE_MAP))
    return f"/*! {name}\n{licence}*/\n{code}\n"


@cache
def _asset(name: str) -> str:
    """A file of the package, as text."""
    return files(_ASSETS).joinpath("assets", name).read_text(encoding="utf-8")
