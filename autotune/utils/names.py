"""Objects that are named by text, loaded on first use; messages that help with wrong names."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

from autotune.utils.guarded_imports import import_is_guarded, module_is_asked_for

# Least similarity at which a public name is offered for an unknown one.
NEAR = 0.7


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


def missing(
    module: str, name: str, gone: Mapping[str, str], below: Mapping[str, str] | None = None
) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: full name of the module.
        name: what was asked of it.
        gone: full name -> what to use instead.
        below: full name of a module -> what to use instead of any other name in it.
    """
    full = f"{module}.{name}"
    if full in gone:
        return AttributeError(_advice(full, gone))
    said = _slip(full)
    if below and not said and not name.startswith("_"):
        said = next((f": {below[each]}" for each in _parents(full) if each in below), "")
    return AttributeError(f"module {module!r} has no attribute {name!r}{said}")


def _parents(full: str) -> Iterator[str]:
    """Yield the modules around a name, the nearest first."""
    while full := full.rpartition(".")[0]:
        yield full


def _slip(full: str) -> str:
    """Return the public name of its module that a name may be a slip of, as `did_you_mean`."""
    module, _, name = full.rpartition(".")
    # A name with an underscore is asked for by Python and by tools, not by a user.
    if module not in sys.modules or name.startswith("_"):
        return ""
    return did_you_mean(name, [one for one in dir(sys.modules[module]) if one[0] != "_"])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" where ``name`` may be a slip of a known one; else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, NEAR)
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


class Absent(ModuleType):
    """Stands in for a removed name that a script imports: only its use is an error.

    Args:
        name: full name.
        advice: the text of the error.
    """

    def __init__(self, name: str, advice: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # so that names below it can be imported
        self._advice = advice

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._advice if not name.startswith("_") else name)

    def __call__(self, *args: object, **options: object) -> Any:
        """Raise ImportError: what is called is not here."""
        raise ImportError(self._advice)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        raise ImportError(self._advice)

    def __instancecheck__(self, instance: object) -> bool:
        raise ImportError(self._advice)

    def __subclasscheck__(self, subclass: type) -> bool:
        raise ImportError(self._advice)

    def __getitem__(self, key: object) -> Any:
        raise ImportError(self._advice)


class _AbsentLoader(Loader):
    def __init__(self, advice: str) -> None:
        self._advice = advice

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name, self._advice)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is."""


class Explainer:
    """Raises an error that names the replacement when a removed module is imported.

    It is the last on `sys.meta_path`: it is called only for modules that no other finder knows,
    which could not be imported anyway.

    Args:
        gone: full name of a module -> what to use instead.
        below: whether this is said of all names in such a module, not of itself.

    Attributes:
        late: whether the import succeeds, and the first use of what was imported raises; but for
            one in a ``try``, which fails so that a script takes its other way.
    """

    def __init__(self, gone: Mapping[str, str], below: bool = False) -> None:
        self._gone = gone
        self._below = below
        self.late = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError with the advice, if there is one.

        It has no ``name``: ``from module import name`` passes over errors that name the import.
        """
        advice = self._advice_of(fullname)
        if advice is None or module_is_asked_for():
            return None
        if self.late and not import_is_guarded():
            return ModuleSpec(fullname, _AbsentLoader(advice), is_package=True)
        raise ModuleNotFoundError(advice)

    def _advice_of(self, fullname: str) -> str | None:
        """Return the text for a name, or for a name below a removed module."""
        if fullname in self._gone and not self._below:
            return _advice(fullname, self._gone)
        if not (self.late or self._below):
            return None
        parent = next((each for each in _parents(fullname) if each in self._gone), None)
        if parent is None:
            return None
        return f"{fullname} is not here: {self._gone[parent]}{_slip(fullname)}"


def explain_late() -> None:
    """Let imports of removed modules succeed in this process, and explain when they are used."""
    for finder in sys.meta_path:
        if isinstance(finder, Explainer):
            finder.late = True


def explain_imports(gone: Mapping[str, str], below: bool = False, late: bool = False) -> None:
    """Let imports of removed modules name their replacements, in this process; see `Explainer`."""
    finder = Explainer(gone, below)
    finder.late = late
    sys.meta_path.append(finder)
