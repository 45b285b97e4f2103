"""Sections of a project file: each value has its type, and every key is read.

Pure. The invariant: an error names the file, the section and the key, and says what was found and
what is expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from deltaproduce.errors import DefinitionError
from deltaproduce.types.excerpts import meant, shown

_FILE: Final = "deltaproduce.toml"


class ProjectFileError(DefinitionError):
    """An error in a project file, or in what it names."""


class Section:
    """One table of a project file; its reader closes it.

    Args:
        name: the name in its heading; empty for the file itself.
        values: its keys and values.
    """

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.values = values
        self._name = name
        self._read: list[str] = []

    def section(self, key: str, *, required: bool = True) -> Section:
        """Return a table in this one; an empty one if it is missing and not required.

        Raises:
            ProjectFileError: the value is wrong; the other methods raise it, too.
        """
        name = f"{self._name}.{key}" if self._name else key
        self._read.append(key)
        value = self.values.get(key, None if required else {})
        if value is None:
            raise ProjectFileError(f"{_FILE}: there is no [{name}]; add it")
        if not isinstance(value, dict):
            raise ProjectFileError(f"{_FILE}: {name} is {shown(value)}; make it a table, [{name}]")
        return Section(name, value)

    def text(
        self,
        key: str,
        default: str | None = None,
        *,
        may_be_empty: bool = False,
        wanted: str = "a text",
    ) -> str:
        """Return a text; required if there is no default.

        Args:
            wanted: what the user should add if a required text is missing.
        """
        self._read.append(key)
        value = self.values.get(key, default)
        if value is None:
            there = f"; {meant(key, self.values)}" if self.values else ""
            raise ProjectFileError(f"{_FILE}: [{self._name}] has no {key!r}: add {wanted}{there}")
        if not isinstance(value, str) or not (value.strip() or may_be_empty):
            self.refuse(key, "a text" if may_be_empty else "a text that is not empty")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text that is not empty; None if it is missing."""
        if key in self.values:
            return self.text(key)
        self._read.append(key)
        return None

    def choice(self, key: str, choices: Sequence[str], default: str | None) -> Any:  # noqa: ANN401 a Literal
        """Return one of several texts; required if there is no default."""
        wanted = " or ".join(f'"{one}"' for one in choices)
        text = self.text(key, default, wanted=wanted)
        if text not in choices:
            self.refuse(key, wanted)
        return text

    def number(self, key: str) -> float | None:
        """Return a number of 0 or more; None if there is none."""
        self._read.append(key)
        value = self.values.get(key)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < float("inf"):
            self.refuse(key, "a number of days, 0 or more")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, which is empty by default."""
        self._read.append(key)
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            self.refuse(key, "a list of texts")
        return tuple(value)

    def flag(self, key: str) -> bool:
        """Return true or false, which is the default."""
        self._read.append(key)
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def settings(self) -> dict[str, str]:
        """Return the whole table as Spark settings: texts, with dotted keys for nested tables."""
        settings: dict[str, str] = {}
        for key, value in self.values.items():
            match value:
                case bool():
                    settings[key] = str(value).lower()
                case str() | int() | float():
                    settings[key] = str(value)
                case dict():
                    inner = Section(f"{self._name}.{key}", value).settings()
                    settings |= {f"{key}.{name}": text for name, text in inner.items()}
                case _:
                    self.refuse(key, "a text, a number or true or false")
        return settings

    def close(self) -> None:
        """Refuse keys that were never read."""
        for key in self.values:
            if key not in self._read:
                advice = meant(key, self._read)
                where = f"[{self._name}]" if self._name else "it"
                raise ProjectFileError(
                    f"{_FILE}: {where} has {key!r}, which is not known; {advice}"
                )

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Raise an error that says what was found and what is expected."""
        text = shown(self.values.get(key))
        raise ProjectFileError(f"{_FILE}: [{self._name}] {key} is {text}; give {wanted}")
