"""Verification of each kernel of a network, on its inputs within the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, Result, Value, ops, run_values
from autotune.network.compiled import NetworkInstance
from autotune.network.plan import Placement, PlanStep
from autotune.runtime.arrays.array import array, empty
from autotune.utils.check import Check, shown

Numbers = dict[Value, object]
# Some errors of float32, relative to a number of steps, or to those of which it is a difference.
_HALVES, _MANY_STEPS = 2.0**-21, 64.0


@dataclass(frozen=True)
class Deviation:
    """The deviation of a kernel of a network from its reference.

    Attributes:
        step: its number among the steps of the plan.
        name: name of the function.
        origin: the place in the program where its operators were created.
        error: norm of the difference from the result in float64, relative to the norm of that
            result; infinite if there is a NaN.
    """

    step: int
    name: str
    origin: str
    error: float


@dataclass(frozen=True)
class NetworkCheck:
    """The result of `check`; true if all kernels are right.

    Attributes:
        deviations: of all kernels, in the order of running.
        tolerance: what an error may be.
    """

    deviations: tuple[Deviation, ...]
    tolerance: float

    @property
    def first(self) -> Deviation | None:
        """The first kernel that is off, or None."""
        off = (each for each in self.deviations if not each.error <= self.tolerance)
        return next(off, None)

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        first = self.first
        if first is None:
            worst = max((each.error for each in self.deviations), default=0.0)
            return f"all {len(self.deviations)} kernels are right; the worst error is {worst:.1e}"
        return (
            f"step {first.step}, {first.name} ({first.origin}), is off by {first.error:.1e}; "
            f"expected at most {self.tolerance:.1e}"
        )


def check(
    instance: NetworkInstance, arrays: Sequence[object], tolerance: float = 1e-5
) -> NetworkCheck:
    """Run each kernel on inputs that were computed in float64, and compare its results.

    So an error is found in the kernel that makes it, not in those that follow. Of bytes that are
    rounded, both neighbours of a half are right.

    Args:
        instance: the network, compiled in this process; its inputs do not change.
        arrays: an array for each input.
        tolerance: the largest allowed `Deviation.error` of a kernel. Float32 sums of some thousand
            numbers have errors of 1e-6, Winograd's convolutions ten times as much.

    Raises:
        GraphError: the network was loaded from a file, which does not contain its graph; or an
            array has another shape, holds no numbers, or holds NaN.
    """
    asked = Check(GraphError, "check")
    asked.kind("instance", instance, NetworkInstance, "an instance of a network")
    asked.number("tolerance", tolerance, least=0)
    plan = instance.network.plan
    units = [step.unit for step in plan.steps]
    if any(unit is None for unit in units):
        raise GraphError("check: the network comes from a file; check what it was built from")
    if len(arrays) != len(plan.inputs):
        raise GraphError(f"check: expected {len(plan.inputs)} arrays, got {len(arrays)}")
    given = {
        name: _given(name, place, value)
        for name, place, value in zip(plan.input_names, plan.inputs, arrays, strict=True)
    }
    known: Numbers = {}
    found = []
    for number, step in enumerate(plan.steps):
        assert step.unit is not None
        function = step.unit.function
        for value in (*function.inputs, *step.unit.arguments[: -len(function.outputs)]):
            _numbers(value, known, given)
        wide = [known[value] for value in function.inputs]
        known.update(zip(function.outputs, function.graph.run(*wide), strict=True))
        exact = [_exact(value, function.graph, wide) for value in function.graph.outputs]
        got = _computed(instance, step, known)
        error = max(
            _error(_chosen(g, known[v], e), known[v])
            for g, v, e in zip(got, function.outputs, exact, strict=True)
        )
        origin = ", ".join(dict.fromkeys(node.origin for node in function.nodes))
        found.append(Deviation(number, function.name, origin, error))
    return NetworkCheck(tuple(found), tolerance)


def _given(name: str, place: Placement, value: object) -> object:
    """Return the value of an input, rounded to its dtype."""
    try:
        with np.errstate(over="ignore"):
            numbers = np.asarray(value, place.dtype)
    except (TypeError, ValueError) as error:
        raise GraphError(f"check: input {name!r}: expected numbers, got {shown(value)}") from error
    if numbers.shape != place.shape:
        raise GraphError(f"check: input {name!r}: expected {place.shape}, got {numbers.shape}")
    if np.isnan(numbers).any():
        raise GraphError(
            f"check: input {name!r} has values that are not a number, with which nothing compares"
        )
    return numbers


def _numbers(value: Value, known: Numbers, given: dict[str, object]) -> Any:
    """Return the numbers of a value; of what only has another shape, from what it is made of."""
    if value not in known:
        if isinstance(value, Constant):
            known[value] = value.array.astype("float64", copy=False)
        elif isinstance(value, Result):
            inputs = [_numbers(each, known, given) for each in value.node.inputs]
            results = value.node.op.reference(*inputs)
            known[value] = results[value.index] if isinstance(results, tuple) else results
        else:
            known[value] = given[value.name]  # type: ignore[attr-defined]
    return known[value]


def _computed(instance: NetworkInstance, step: PlanStep, known: Numbers) -> Iterable[object]:
    """Run the kernel of a step on arrays of its own."""
    assert step.unit is not None
    executable = instance.network.modules[step.kernel].executable
    count = len(step.unit.function.outputs)
    arrays = []
    for value, place in zip(step.unit.arguments, step.places, strict=True):
        made = empty(place.shape, place.dtype, instance.device)
        if value in step.unit.function.outputs:
            # Where only updates are stored, all else is compared to the zeros of the reference.
            made.fill_bytes(0 if step.unit.function.stores_updates else 0xFF)
        else:
            made = array(np.asarray(known[value], place.dtype).reshape(place.shape), made.device)
        arrays.append(made)
    executable.call(arrays)
    return [each.numpy() for each in arrays[-count:]]


def _exact(value: Value, graph: Graph, arrays: Sequence[Any]) -> Any:
    """Return the numbers that are rounded to bytes, where a value of a graph is such bytes."""
    op = value.node.op if isinstance(value, Result) else None
    if not isinstance(op, ops.Quantize | ops.Requantised) or value.dtype not in ("int8", "uint8"):
        return None
    assert isinstance(value, Result)
    known: dict[Value, Any] = dict(zip(graph.inputs, arrays, strict=True))
    return op.unrounded(*run_values(value.node.inputs, known, "float64"))


def _chosen(got: object, want: Any, exact: Any) -> Any:
    """Return results, with those wanted where exact numbers are so near to a half that either is
    right: a kernel computes them in float32.
    """
    if exact is None:
        return got
    found = np.asarray(got, "float64").reshape(np.shape(want))
    unsure = _HALVES * np.maximum(np.abs(exact), _MANY_STEPS)
    near = (np.abs(found - want) == 1) & (np.abs(found - exact) <= 0.5 + unsure)
    return np.where(near, want, found)


def _error(got: object, want: Any) -> float:
    wide = np.asarray(got, "float64").reshape(np.shape(want))
    size = float(np.linalg.norm(np.asarray(want, "float64")))
    error = float(np.linalg.norm(wide - want)) / (size or 1.0)
    return error if np.isfinite(error) else float("inf")
