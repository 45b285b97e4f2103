"""Pandas for pyarrow: imported when it is needed, not with the first array.

To see whether a list is a series of pandas, pyarrow imports pandas the first time that it makes an
array. That is a sixth of a short process, and half of a worker's start. But as long as nobody has
imported pandas, nothing can be a series. So at that moment pyarrow gets a stand-in. It imports
pandas all the same when it infers a type, and for `to_numpy`, which `in_numpy` takes the place of.

Invariants: pyarrow does what it does with pandas. The stand-in's classes are those of pandas as
soon as anybody has imported it, and whatever else pyarrow asks of it is asked of pandas, which is
imported then. Only pyarrow ever has the stand-in.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.pandas_compat
import pyarrow.vendored.version  # it imports both with pandas; nothing is slow with the stand-in
from numpy.typing import DTypeLike, NDArray

_PANDAS: Final = "pandas"


class _Module(ModuleType):
    """A module of pandas: what is not known of it is looked up in the module itself."""

    def __init__(self, name: str, **known: object) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 whatever pandas has
        return getattr(import_module(self.__name__), name)


class _Class(type):
    """A class of pandas; an object is an instance of it only if pandas is imported."""

    home: str
    original: type | None

    def __new__(cls, home: str, name: str) -> _Class:
        return super().__new__(cls, name, (), {"home": home, "original": None})

    def __init__(cls, home: str, name: str) -> None:
        super().__init__(name, (), {})

    def __instancecheck__(cls, instance: object) -> bool:
        if cls.original is None:  # pyarrow asks this of whatever it makes an array of
            module = sys.modules.get(cls.home)
            if module is None or isinstance(module, _Module):
                return False
            cls.original = getattr(module, cls.__name__, None)
        return cls.original is not None and isinstance(instance, cls.original)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 the arguments of that class
        return cls._real_class()(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:  # noqa: ANN401 whatever that class has
        return getattr(cls._real_class(), name)

    def _real_class(cls) -> Any:  # noqa: ANN401 that class
        return getattr(import_module(cls.home), cls.__name__)


def await_pandas() -> None:
    """Let pyarrow work without pandas until somebody imports it, if pyarrow has not looked yet."""
    version = None if _PANDAS in sys.modules else _installed()
    if version is None:
        return
    sys.modules[_PANDAS] = _stand_in(version)
    try:
        pa.array(np.empty(0))  # here pyarrow looks, once in a process
    finally:
        del sys.modules[_PANDAS]


def in_numpy(values: pa.Array | pa.ChunkedArray, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return what `numpy.asarray` returns; for numbers and booleans without nulls without pandas.

    And booleans ten times as fast. The result may share the memory, and is then read-only.
    """
    return np.asarray(_in_numpy(values), dtype)


def _in_numpy(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    kind = values.type
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not is_plain or values.null_count:
        return np.asarray(values)
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks > 1:
            return np.concatenate([_in_numpy(chunk) for chunk in values.chunks])
        values = values.combine_chunks()
    if not pa.types.is_boolean(kind):
        return np.from_dlpack(values)
    if not len(values):
        return np.zeros(0, np.bool_)
    octets, end = np.frombuffer(values.buffers()[1], np.uint8), values.offset + len(values)
    return np.unpackbits(octets, count=end, bitorder="little")[values.offset :].view(np.bool_)


def _installed() -> str | None:
    """Return the version of pandas, by the name of the folder that installers make beside it.

    To ask `importlib.metadata` takes ten times as long.
    """
    spec = find_spec(_PANDAS)
    if spec is None or spec.origin is None:
        return None
    beside = Path(spec.origin).parent.parent
    names = [path.stem for path in beside.glob(f"{_PANDAS}-*.dist-info")]
    return names[0].removeprefix(f"{_PANDAS}-") if len(names) == 1 else None


def _stand_in(version: str) -> _Module:
    """Return what pyarrow gets: it compares the version, and keeps these classes."""
    extensions, types = f"{_PANDAS}.api.extensions", f"{_PANDAS}.api.types"
    api = _Module(
        f"{_PANDAS}.api",
        extensions=_Module(
            extensions,
            ExtensionArray=_Class(extensions, "ExtensionArray"),
            ExtensionDtype=_Class(extensions, "ExtensionDtype"),
        ),
        types=_Module(types, DatetimeTZDtype=_Class(types, "DatetimeTZDtype")),
    )
    names = ("DataFrame", "Index", "Categorical", "Series")
    classes = {name: _Class(_PANDAS, name) for name in names}
    return _Module(_PANDAS, __version__=version, api=api, **classes)
