"""What networks of one model have in common: kernels of functions that are the same in all."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

from autotune.graph import Constant, Node
from autotune.graph.fuse import FusedFunction
from autotune.network.choice import Choice, Chooser
from autotune.network.implementations import serving
from autotune.network.units import Unit
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.task.dispatcher import ContextsAround, contexts_around


class SharedKernels:
    """Choices and kernels of untuned functions, by their structure.

    To ask templates and to write a kernel takes longer than to find one that is compiled already,
    and of a network for other shapes most functions are those of the networks before. Kernels are
    kept while a network has them, so each is in memory once.
    """

    def __init__(self) -> None:
        # By what the choices depend on: records that are there for templates, and which inputs are
        # known, so that kernels may want them in another layout, besides these.
        self._choices: dict[tuple[ContextsAround, str, tuple[bool, ...], Target], Choice] = {}
        self._modules: WeakValueDictionary[tuple[str, Target], Module] = WeakValueDictionary()
        self._serving: dict[Target, Callable[[Node], bool]] = {}

    def remembering(self, choose: Chooser) -> Chooser:
        """Return a chooser that asks another one once for all functions of a structure."""

        def chosen(function: FusedFunction, target: Target) -> Choice:
            known = tuple([isinstance(each, Constant) for each in function.inputs])
            key = contexts_around(), function.signature, known, target
            if key not in self._choices:
                self._choices[key] = choose(function, target)
            return self._choices[key]

        return chosen

    def serving(self, target: Target) -> Callable[[Node], bool]:
        """Return `serving` for a target, with the answers of earlier networks."""
        return self._serving.setdefault(target, serving(target))

    def making(self, make: Callable[[Unit], Module], target: Target) -> Callable[[Unit], Module]:
        """Return what compiles a unit, unless another network has its kernel."""

        def made(unit: Unit) -> Module:
            key = unit.key, target
            found = self._modules.get(key)
            return found if found is not None else self._modules.setdefault(key, make(unit))

        return made
