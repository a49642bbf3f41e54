"""Objects that are named by text, loaded on first use; messages that help with wrong names."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

# Least similarity at which a public name is offered for an unknown one.
_NEAR = 0.7


def load(home: str) -> Any:
    """Return the object ``"module:name"``, or the module ``"module"``."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def lazy(
    module: str, homes: Mapping[str, str], gone: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module whose names are loaded when first used.

    Args:
        module: full name of the module.
        homes: name -> text for `load`.
        gone: full name -> what to use instead, for `missing`.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise missing(module, name, gone or {})
        value = load(homes[name])
        setattr(sys.modules[module], name, value)
        return value

    return find


def lent(
    module: str, names: str, homes: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a folder: names that AutoTVM has for it and we have elsewhere.

    They keep ``import autotune as autotvm`` whole; `autotune.tvm` is imported when one is used.

    Args:
        module: the full name of the folder's package.
        names: AutoTVM's, separated by spaces.
        homes: the folder's own names that are loaded when first used, as `lazy` takes them.
    """
    wing = module.replace("autotune", "autotune.tvm.autotvm", 1)
    return lazy(module, {name: f"{wing}:{name}" for name in names.split()} | dict(homes or {}))


def missing(module: str, name: str, gone: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that a module does not have."""
    full = f"{module}.{name}"
    if full in gone:
        return AttributeError(_advice(full, gone))
    public = [one for one in dir(sys.modules[module]) if not one.startswith("_")]
    # A name with an underscore is asked for by Python and by tools, not by a user.
    slip = "" if name.startswith("_") else did_you_mean(name, public)
    return AttributeError(f"module {module!r} has no attribute {name!r}{slip}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" where ``name`` may be a slip of a known one; else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, _NEAR)
    return f"; did you mean {near[0]!r}?" if near else ""


def _advice(full: str, gone: Mapping[str, str]) -> str:
    return f"{full} is not here: {gone[full]}"


class Elsewhere:
    """A class that says of methods which TVM's scripts call on it what to use instead.

    Attributes:
        elsewhere: name of a method that is not here -> what to use.
    """

    __slots__ = ()
    elsewhere: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in self.elsewhere:
            raise AttributeError(f"{kind}.{name} is not here: {self.elsewhere[name]}")
        raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)


class Explainer:
    """Raises an error that names the replacement when a removed module is imported.

    It finds no modules, and is the last on `sys.meta_path`: it is called only for modules that no
    other finder knows, which could not be imported anyway.

    Args:
        gone: full name of a module -> what to use instead.
    """

    def __init__(self, gone: Mapping[str, str]) -> None:
        self._gone = gone

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError with the advice, if there is one.

        It has no ``name``: ``from module import name`` passes over errors that name the import.
        """
        if fullname in self._gone:
            raise ModuleNotFoundError(_advice(fullname, self._gone))


def explain_imports(gone: Mapping[str, str]) -> None:
    """Let imports of removed modules name their replacements, in this process."""
    sys.meta_path.append(Explainer(gone))
