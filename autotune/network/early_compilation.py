"""Compiles kernels of a network while choices for its other functions are still being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from autotune.errors import AutotuneError
from autotune.graph.fuse import FusedFunction
from autotune.network.choice import ByTemplate, Choice, Chooser
from autotune.network.units import Unit
from autotune.runtime.module import Module
from autotune.target import Target


class EarlyModules(Mapping[str, Module]):
    """Modules by `Unit.key`, whose compilation starts as soon as a function's choice is known.

    Choosing takes this process about as long as the compilers, which are other processes, need for
    the choices, so the two overlap. Reading a module waits for it. A module that failed is
    missing, and compiling it again raises the error.

    Args:
        make: compiles a unit.
        jobs: how many compilers run at once.
    """

    def __init__(self, make: Callable[[Unit], Module], jobs: int) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(jobs, "autotune-early")
        self._begun: dict[str, Future[Module]] = {}

    def watching(self, choose: Chooser) -> Chooser:
        """Return a chooser that begins to compile what another one chooses."""

        def chosen(function: FusedFunction, target: Target) -> Choice:
            choice = choose(function, target)
            self._begin(function, choice)
            return choice

        return chosen

    def _begin(self, function: FusedFunction, choice: Choice) -> None:
        """Compile what computes all of a function; of others the plan knows more."""
        nodes = choice.offer.nodes if isinstance(choice, ByTemplate) else 0
        whole = nodes == len(function.nodes) or (nodes == 0 and not function.parts)
        unit = Unit(function, function, choice, ())
        if whole and unit.key not in self._begun:
            self._begun[unit.key] = self._pool.submit(self._make, unit)

    def __getitem__(self, key: str) -> Module:
        try:
            return self._begun[key].result()
        except AutotuneError as error:
            raise KeyError(key) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._begun)

    def __len__(self) -> int:
        return len(self._begun)

    def __enter__(self) -> EarlyModules:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Cancel compilations that have not begun; after an error, wait for no other either."""
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
