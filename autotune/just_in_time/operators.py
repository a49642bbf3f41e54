"""Operators as calls ask for them: computed by whatever template there is for their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from autotune.errors import AutotuneError, GraphError, TunerError
from autotune.graph import OPERATORS, Graph, Node, Operator, Pattern, TensorType, Variable
from autotune.graph.fuse import FusedFunction, partition
from autotune.just_in_time.attributes import operator_of
from autotune.just_in_time.offers import CallOffer, CallRequest, refuse_source
from autotune.just_in_time.overlap import Overlap
from autotune.network import FunctionOffer, fallback_kernel, offers_of
from autotune.runtime.arrays.array import dtype_name
from autotune.target import Target
from autotune.utils.check import Check
from autotune.utils.names import NEAR, did_you_mean


@dataclass(frozen=True)
class OfOperator:
    """An operator, by whatever template computes it; the user's function gives its attributes.

    The arguments of a call are the operator's inputs and then its results.
    """

    owner: str
    name: str

    def __post_init__(self) -> None:
        if self.name not in OPERATORS:
            refuse_source(self.name, _meant(self.name))

    def asked(self, given: object, args: Sequence[object], target: Target) -> CallRequest:
        """Return all templates that compute it, and how it is computed by rule."""
        op = self._operator(given)
        function = self._function(op, args)
        title = f"{self.name}{tuple(v.type.shape for v in function.inputs)}"
        results = tuple(range(len(function.inputs), len(args)))
        offers = [
            CallOffer(offer.task, (*offer.operands, *results))
            for offer in offers_of(function, target)
            if _is_whole(offer)
        ]
        alone = all(node.op.pattern <= Pattern.BROADCAST for node in function.graph.nodes)
        check = Overlap(self.owner, len(function.inputs), len(results), alone).check
        shapes = tuple(v.type.shape for v in (*function.inputs, *function.graph.outputs))
        return CallRequest(
            title, tuple(offers), lambda: fallback_kernel(function, target), check, shapes
        )

    def written(self, given: object, args: Sequence[object], target: Target) -> tuple[int, ...]:
        """Return the results."""
        function = self._function(self._operator(given), args)
        return tuple(range(len(function.inputs), len(args)))

    def _operator(self, given: object) -> Operator:
        """Return the operator with the attributes that the user's function gave."""
        op = operator_of(self.owner, OPERATORS[self.name], given)
        if not op.has_compute:
            raise TunerError(
                f"{self.owner}: networks make {self.name} of other operators, so there is no one "
                "kernel of it; jit a template that computes it, if there is one"
            )
        return op

    def _function(self, op: Operator, args: Sequence[object]) -> FusedFunction:
        """Return the operator applied to what was given, whose results must be of its types."""
        owner = f"{self.owner}: {self.name}"
        types = [_type_of(owner, number, value) for number, value in enumerate(args)]
        node, inputs = self._node(op, types)
        expected, given = [value.type for value in node.outputs], types[len(inputs) :]
        if expected != given:
            raise TunerError(
                f"{self.owner}: {self.name} gives {', '.join(map(str, expected))}, the results "
                f"to write to are {', '.join(map(str, given))}"
            )
        (function,) = partition(Graph(inputs, node.outputs), 0)
        if function.inputs != inputs:
            raise TunerError(f"{self.owner}: {self.name} does not read all of its inputs")
        return function

    def _node(
        self, op: Operator, types: Sequence[TensorType]
    ) -> tuple[Node, tuple[Variable, ...]]:
        """Return the operator applied to as many of the arguments as it has inputs."""
        why = f"{self.owner}: no argument is given"
        for count in range(len(types) - 1, -1, -1):
            inputs = tuple(Variable(each, f"p{i}") for i, each in enumerate(types[:count]))
            try:
                node = Node(op, inputs, self.owner)
            except GraphError as error:
                why = str(error) if count == len(types) - 1 else why
                continue
            if len(node.outputs) == len(types) - count:
                return node, inputs
        raise TunerError(
            f"{why}; the arguments of a call are the inputs of {self.name}, then its results"
        )


def _meant(name: str) -> str:
    """Return which operator a wrong name may mean, whatever it has in front, or where all are."""
    last = {each.rpartition(".")[2]: each for each in reversed(list(OPERATORS))}
    near = get_close_matches(name.rpartition(".")[2].lower(), last, 1, NEAR)
    by_last = f"; did you mean {last[near[0]]!r}?" if near else ""
    return did_you_mean(name, OPERATORS) or by_last or "; autotune.graph.OPERATORS has all names"


def _is_whole(offer: FunctionOffer) -> bool:
    """Return whether a template needs nothing ahead of the call."""
    return not offer.prepared


def _type_of(owner: str, number: int, value: object) -> TensorType:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or isinstance(value, np.generic):
        hint = "" if value is None else "; numpy.asarray makes an array of it"
        Check(TunerError, owner).refuse(f"argument {number}", "an array", value, hint)
    try:
        name = str(dtype).removeprefix("torch.")
        return TensorType(tuple(shape), dtype_name(name))
    except AutotuneError as error:
        raise TunerError(f"{owner}: argument {number}: {error}") from error
