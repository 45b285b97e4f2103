"""Values as JSON for other programs to read; `json.values` is for values that are read back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any


def plain(value: object) -> Any:  # noqa: ANN401 what JSON has
    """Return a value as JSON has it: times in ISO 8601, decimals as text, bytes as hex digits."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
    return str(value)
