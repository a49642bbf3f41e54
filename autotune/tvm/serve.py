"""Serving ``import tvm`` from this package, in one process and the children that it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType

from autotune.ir.operators import divide_integers_as_c
from autotune.utils.guarded_imports import import_is_guarded, module_is_asked_for
from autotune.utils.names import Absent, explain_imports, explain_late

# Holds a module of each name below, which runs only as that: the folder is no package.
_FOLDER = str(Path(__file__).parent / "served")
# What is served, and where it is. Until 0.7 TVM's `topi` was a package of its own.
_SERVED = {"tvm": "autotune.tvm", "topi": "autotune.tvm.topi"}
# Packages beside TVM that its scripts import.
_GONE = {
    "nnvm": "networks are those of relay.testing and relay.nn, which took its place",
    "vta": "the targets are CUDA and the CPU",
}


def serve_tvm() -> None:
    """Let ``import tvm`` find this package, here and in each Python that this process starts.

    It comes before a TVM that may be installed.
    """
    _find_by_asking()
    sys.path.insert(0, _FOLDER)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_FOLDER, inherited)))


def alias_tvm() -> None:
    """Make ``tvm``, ``topi`` and all below them other names of the modules of this package.

    A script that imports them so is TVM's as a whole: ``/`` of integers is what it was there.
    """
    divide_integers_as_c()
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    _find_by_asking()
    for name, home in _SERVED.items():
        sys.modules[name] = import_module(home)
    explain_imports(_GONE)
    explain_late()  # many scripts import more than they use


def _find_by_asking() -> None:
    sys.path_importer_cache[_FOLDER] = _FolderFinder(_FOLDER, (SourceFileLoader, SOURCE_SUFFIXES))


def stand_in(package: str) -> None:
    """Put what explains itself when it is used in the place of a package beside TVM.

    Raises:
        ModuleNotFoundError: the script imports it in a ``try``, so that it has another way.
    """
    alias_tvm()
    advice = f"{package} is not here: {_GONE[package]}"
    if import_is_guarded():
        raise ModuleNotFoundError(advice, name=package)
    sys.modules[package] = Absent(package, advice)


class _FolderFinder(FileFinder):
    """Finds what stands in for a package where it is imported, not where it is asked for."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load one of the modules of the folder."""
        if fullname in _GONE and module_is_asked_for():
            return None
        return super().find_spec(fullname, target)


class _Finder(MetaPathFinder):
    """Finds ``tvm.x`` at ``autotune.tvm.x``, and ``topi.x`` below that."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of TVM's; None for any other."""
        served, dot, rest = fullname.partition(".")
        if not dot or served not in _SERVED:
            return None
        home = f"{_SERVED[served]}.{rest}"
        if module_is_asked_for() and find_spec(home) is None:
            return None
        # Imported here, so that an error names the module as it is looked for.
        module = import_module(home)
        return spec_from_loader(fullname, _Alias(module))


class _Alias(Loader):
    """Loads a module that was imported under another name: the same object."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, not a second one."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is; the import system has replaced its spec."""
        module.__spec__ = self._spec

    def is_package(self, fullname: str) -> bool:
        """Return whether the module is a folder, of which ``-m`` runs ``__main__``."""
        del fullname
        return self._spec is not None and self._spec.submodule_search_locations is not None

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module, for ``-m tvm.module``."""
        del fullname
        loader = None if self._spec is None else self._spec.loader
        if not isinstance(loader, InspectLoader):
            return None
        return loader.get_code(self._module.__name__)
