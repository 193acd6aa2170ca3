"""The identity of a model: a digest of what a fitted model holds and of the code that it runs.

The same fitted model is the same question, in this process and in the next one. The digest of a pickle is not
enough: a pickle names classes and functions and leaves their code out. So a model whose ``predict`` was
rewritten would be mistaken for the old one. Here the caller's own code enters by value: instructions,
constants, and the variables of its module that it uses. Code of installed packages enters by name and
version.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher


def model_key(model: object) -> str | None:
    """A digest of a model as it is now; None if it has no digest that is the same twice.

    Guarantee: models with the same digest hold equal values and run the same code of the caller's own (up to
    a collision of SHA-256), on packages of the same version.
    Assumes: pickling a model saves everything that its predictions depend on, except code. Not checkable.
    """
    try:
        first, second = _Digest().of(model), _Digest().of(model)
    except Exception:  # Pickling can raise whatever the caller's objects raise.
        return None
    return first if first == second else None


class _Digest(NumpyHasher):  # type: ignore[misc]
    """Hashes arrays by their content, sets and dicts in any order, and code by what it does."""

    def __init__(self) -> None:
        super().__init__(hash_name="sha256")
        self._begun: set[int] = set()

    def of(self, model: Any) -> str:
        return str(self.hash(model))

    def save(self, obj: Any) -> None:
        """Arrays and numbers by type and content, whatever their layout in memory."""
        if isinstance(obj, np.ndarray) and obj.dtype.names is not None:
            # There may be meaningless bytes between the fields of a record.
            obj = ("record", [(name, obj[name]) for name in obj.dtype.names])
        elif isinstance(obj, (np.ndarray, np.generic)) and not obj.dtype.hasobject:
            content = np.ascontiguousarray(obj)
            self._hash.update(content.reshape(-1).view(np.uint8))
            obj = ("array", type(obj).__name__, str(obj.dtype), content.shape)
        super().save(obj)

    def save_global(self, obj: Any, name: str | None = None, pack: Any = None) -> None:
        place = (getattr(obj, "__module__", None), name or getattr(obj, "__qualname__", repr(obj)))
        if not isinstance(obj, (type, FunctionType)) or _is_installed(obj):
            self.save(("named", place, _version(place[0])))
        elif id(obj) in self._begun:
            self.save(("again", place))
        else:
            self._begun.add(id(obj))
            parts = _class_parts(obj) if isinstance(obj, type) else _function_parts(obj)
            self.save(("code", place, list(parts)))

    def save_module(self, module: ModuleType) -> None:
        if not _comes_with_a_package(module):
            # What the model uses of it may change, and is not looked for: such a model has no digest.
            raise ValueError(f"{module.__name__} is a module of the caller's own")
        self.save(("module", module.__name__, _version(module.__name__)))

    def save_frozenset(self, items: frozenset[Any]) -> None:
        self.save(("frozenset", set(items)))

    dispatch = NumpyHasher.dispatch.copy()
    for kind in (type, FunctionType, type(len)):
        dispatch[kind] = save_global
    dispatch[ModuleType] = save_module
    dispatch[frozenset] = save_frozenset


def _class_parts(cls: type) -> Iterator[Any]:
    """What a class does: its bases, its methods, its attributes. Of the names that Python itself adds, only
    methods count."""
    yield from cls.__bases__
    for name, value in sorted(vars(cls).items()):
        added_by_python = name.startswith("__") and name.endswith("__")
        if isinstance(value, (GetSetDescriptorType, MemberDescriptorType)) or name == "_abc_impl":
            continue
        if not added_by_python or isinstance(value, (FunctionType, staticmethod, classmethod)):
            yield name, _unwrapped(value)


def _unwrapped(value: Any) -> Any:
    """A method without its wrappers."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, value.__func__
    if isinstance(value, property):
        return "property", value.fget, value.fset, value.fdel
    if isinstance(value, cached_property):
        return "cached", value.func
    return value


def _function_parts(function: FunctionType) -> Iterator[Any]:
    """What a function does: its code, its defaults, the variables in its closure, and the variables of its
    module that it uses."""
    yield from (_code_parts(function.__code__), function.__defaults__, function.__kwdefaults__)
    yield getattr(function, "__wrapped__", None)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield "empty"
    for name in sorted(_globals_of(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    """Code without the file and the line where it was written."""
    constants = [
        _code_parts(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return code.co_code, constants, names, counts


def _globals_of(code: CodeType) -> set[str]:
    used = {
        str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return used.union(
        *(_globals_of(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    )


@cache
def _installed_places() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in names})


def _is_installed(obj: Any) -> bool:
    """Whether an object is identified by its name alone: it belongs to Python or to an installed package."""
    module = sys.modules.get(obj.__module__ or "")
    if module is None or obj.__module__ == "__main__" or "<locals>" in obj.__qualname__:
        return False
    return _comes_with_a_package(module)


def _comes_with_a_package(module: ModuleType) -> bool:
    """Whether a module belongs to Python or to an installed package. Such modules do not change by
    themselves."""
    if module.__name__.partition(".")[0] == "holdfast":
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ in sys.builtin_module_names
    path = Path(file).resolve()
    return any(path.is_relative_to(place) for place in _installed_places())


def _version(module: str | None) -> str:
    package = sys.modules.get((module or "").partition(".")[0])
    return str(getattr(package, "__version__", ""))
