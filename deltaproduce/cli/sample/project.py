"""The sample project: writes it to a new folder, under the folder's name."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from deltaproduce.errors import InvalidArgumentError

_FILES: Final = {
    "README.md": "README.md.txt",
    "deltaproduce.toml": "deltaproduce.toml.txt",
    "pipeline.py": "pipeline.py.txt",
    "data/customers.csv": "data/customers.csv.txt",
    "data/orders/2026-01-01.csv": "data/orders/2026-01-01.csv.txt",
    ".gitignore": "gitignore.txt",
}
"""File of the sample -> its template."""


def write(folder: Path) -> tuple[str, ...]:
    """Create the sample; return its files.

    Raises:
        InvalidArgumentError: the folder exists, and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(
            f"{str(folder)!r} is there, and not an empty folder: give another name", argument="name"
        )
    name = folder.absolute().name
    values = {"name": name, "name_in_toml": json.dumps(name, ensure_ascii=False)}
    sample = files(__package__).joinpath("files")
    for path, template in _FILES.items():
        text = sample.joinpath(*template.split("/")).read_text(encoding="utf-8")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(text).substitute(values), encoding="utf-8")
    return tuple(_FILES)
