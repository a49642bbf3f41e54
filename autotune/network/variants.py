"""One network compiled in many ways; what they have in common is made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from autotune.graph import Constant, Graph, Operator
from autotune.graph.fuse import Function, partition
from autotune.network.choice import RULE, Choice, Chooser, choose_untuned, units_of
from autotune.network.compile import compile_plan
from autotune.network.compiled import CompiledNetwork
from autotune.network.plan import plan_units
from autotune.runtime.module import Module
from autotune.target import Target


class Variants:
    """The ways to compile a network whose functions stay the same.

    Args:
        graph: after its passes.
        target: what for.

    Attributes:
        functions: of the network, in the order of running.
        modules: all kernels compiled so far, by `Unit.key`.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.functions = partition(graph)
        self.modules: dict[str, Module] = {}
        self._prepared: dict[tuple[Constant, Operator], Constant] = {}

    @cached_property
    def untuned(self) -> Mapping[str, Choice]:
        """How each function is computed before anything is known of it, by its signature."""
        found: dict[str, Choice] = {}
        for function in self.functions:
            if function.signature not in found:
                free = function.is_free
                found[function.signature] = RULE if free else choose_untuned(function, self.target)
        return found

    def of(self, choices: Mapping[str, Choice], branches: bool = False) -> CompiledNetwork:
        """Return the network with some functions computed as said, the others untuned.

        Args:
            choices: by signature.
            branches: whether kernels run side by side that do not depend on one another.

        Raises:
            GraphError: kernels cannot be compiled.
        """

        def choose(function: Function, target: Target) -> Choice:
            del target
            mine = choices.get(function.signature)
            return self.untuned[function.signature] if mine is None else mine

        return self.by(choose, branches)

    def by(self, choose: Chooser, branches: bool = False) -> CompiledNetwork:
        """Return the network as a chooser says.

        Raises:
            GraphError: kernels cannot be compiled.
        """
        units = units_of(self.functions, self.target, choose, self._prepared)
        plan = plan_units(self.graph, units, branches)
        network = compile_plan(plan, self.target, known=self.modules)
        made = zip(plan.kernels, network.modules, strict=True)
        self.modules |= {unit.key: module for unit, module in made}
        return replace(network, branches=branches)
