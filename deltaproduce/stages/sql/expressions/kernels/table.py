"""All kernels, by the names in terms."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.kernels.arithmetic import ARITHMETIC
from deltaproduce.stages.sql.expressions.kernels.calendar import CALENDAR
from deltaproduce.stages.sql.expressions.kernels.casting import CASTING
from deltaproduce.stages.sql.expressions.kernels.comparing import COMPARING
from deltaproduce.stages.sql.expressions.kernels.text import TEXT

KERNELS: Final = MappingProxyType({**ARITHMETIC, **CALENDAR, **CASTING, **COMPARING, **TEXT})
