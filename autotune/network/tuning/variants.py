"""Compiles one network in many ways, and makes what they have in common once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from autotune.graph import Constant, Graph, Operator
from autotune.graph.fuse import FusedFunction, joint_functions, partition
from autotune.network.choice import RULE, Choice, Chooser, choose_untuned
from autotune.network.compile import compile_plan
from autotune.network.compiled import CompiledNetwork
from autotune.network.plan import plan_units
from autotune.network.units import is_one, units_of
from autotune.runtime.module import Module
from autotune.target import Target


class Variants:
    """The ways to compile a network whose functions stay the same.

    Args:
        graph: after its passes.
        target: what for.

    Attributes:
        parts: functions of one result each, in the order of running.
        joint: those of two results that run in place of two parts before anything is tuned; which
            of the two is better is to be found out.
        modules: all kernels compiled so far, by `Unit.key`.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.parts = partition(graph)
        self.modules: dict[str, Module] = {}
        self._prepared: dict[tuple[Constant, Operator], Constant] = {}
        found = joint_functions(graph, self.parts)
        self.joint = [each for each in found if is_one(each, choose_untuned(each, target))]

    @cached_property
    def functions(self) -> list[FusedFunction]:
        """The functions to tune, in the order of running; joint functions replace their parts."""
        joint = {part: each for each in self.joint for part in each.parts}
        return list(dict.fromkeys(joint.get(each, each) for each in self.parts))

    @cached_property
    def untuned(self) -> Mapping[str, Choice]:
        """The untuned choice for each function, by its signature."""
        found: dict[str, Choice] = {}
        for function in (*self.parts, *self.joint):
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

        def choose(function: FusedFunction, target: Target) -> Choice:
            del target
            mine = choices.get(function.signature)
            return self.untuned[function.signature] if mine is None else mine

        return self.by(choose, branches)

    def by(self, choose: Chooser, branches: bool = False) -> CompiledNetwork:
        """Return the network as a chooser says.

        Raises:
            GraphError: kernels cannot be compiled.
        """
        units = units_of(self.parts, self.target, choose, self._prepared, self.joint)
        plan = plan_units(self.graph, units, branches)
        network = compile_plan(plan, self.target, known=self.modules)
        made = zip(plan.kernels, network.modules, strict=True)
        self.modules |= {unit.key: module for unit, module in made}
        return replace(network, branches=branches)
