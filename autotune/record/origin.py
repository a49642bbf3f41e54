"""The origin of a record: the device that timed it, and the target of its kernel.

A target may name no architecture; it is then that of the device at hand. In a log that would be
another one on the next machine, so there the device that the record names decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.target import Target, arch_here, arch_of_class, device_class
from autotune.task import Task


class Measured(Protocol):
    """An input that was measured for a target."""

    @property
    def target(self) -> Target:
        """The target."""


One = TypeVar("One", bound=Measured)


def arch_of(pair: tuple[Measured, MeasureResult]) -> str | None:
    """Return the architecture that the target of a record names, or that it was measured on."""
    target = pair[0].target
    if "arch" in target.attrs:
        return target.arch
    return arch_of_class(pair[1].evidence.device_class)


def as_measured(pair: Pair) -> Pair:
    """Return a record with the architecture that it was measured on in its target.

    So its template is run, and its kernel made, as they were then, on whatever machine.
    """
    inp, arch = pair[0], arch_of(pair)
    if arch is None or "arch" in inp.target.attrs or not isinstance(inp.task, Task):
        return pair
    return with_arch(pair, arch)


def with_arch(pair: Pair, arch: str) -> Pair:
    """Return a record of a template with an architecture in its target."""
    inp, result = pair
    target = Target({"kind": str(inp.target.kind), **inp.target.attrs, "arch": arch})
    task = Task(inp.task.name, Task.of(inp.task).args, target)
    return MeasureInput(target, task, inp.config), result


def is_from_elsewhere(pair: tuple[Measured, MeasureResult], target: Target) -> bool:
    """Return whether a record is known to be of another kind of device than a target has here."""
    then, now = pair[1].evidence.device_class, device_class(target)
    if then is not None and now is not None and "arch" not in target.attrs:
        return then != now
    return differ(arch_of(pair), arch_here(target))


def from_here(
    pairs: Iterable[tuple[One, MeasureResult]], target: Target
) -> list[tuple[One, MeasureResult]]:
    """Return records without those of another kind of device, unless there are no others."""
    given = list(pairs)
    return [pair for pair in given if not is_from_elsewhere(pair, target)] or given


def differ(one: str | None, other: str | None) -> bool:
    """Return whether two architectures are known to be different; ``sm_90a`` is ``sm_90``."""
    return one is not None and other is not None and plain_arch(one) != plain_arch(other)


def plain_arch(arch: str) -> str:
    """Return an architecture without its suffix for features of that device alone (``sm_90a``)."""
    return arch.rstrip("af") if arch.startswith("sm_") else arch


def elsewhere_words(result: MeasureResult, target: Target) -> str:
    """Say where a record was measured that is of another device."""
    here = device_class(target) or target.arch
    return f"of another device, {result.evidence.device_class}, not of {here}"
