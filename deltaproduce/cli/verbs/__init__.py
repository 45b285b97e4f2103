"""The verbs: one module for each group, and the table of all verbs in the order of the help.

A verb is a function of an `Invocation`, and of typer's arguments and options; its name is the
command's. To add a verb, write it in the module of its group and list it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from deltaproduce.cli.commands.command import Verb
from deltaproduce.cli.verbs.copies import compare, sync
from deltaproduce.cli.verbs.pages import report
from deltaproduce.cli.verbs.projects import check, doctor, explain, graph, init
from deltaproduce.cli.verbs.rows import changes, diff, lineage, show, updates
from deltaproduce.cli.verbs.upkeep import compact, forget, repair, vacuum, verify
from deltaproduce.cli.verbs.versions import backfill, plan, refresh, rollback, run, versions

VERBS: Final[Mapping[str, tuple[Verb, ...]]] = MappingProxyType(
    {
        "Project": (init, check, graph, explain, doctor),
        "Versions": (plan, run, versions, refresh, backfill, rollback),
        "Rows": (show, updates, changes, diff, lineage, report, sync, compare),
        "Upkeep": (forget, verify, repair, compact, vacuum),
    }
)
"""Group -> its verbs."""
