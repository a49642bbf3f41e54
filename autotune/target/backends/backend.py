"""The interface of a back end: all that differs between kinds of targets.

Nothing outside asks whether a target "is CUDA"; it asks the row. What stands in folders above is
named by its place, ``"module:name"``, and loaded when it is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from autotune.target.limits import Limits
from autotune.utils.names import load

Language = Literal["cuda", "c"]
Compiler = Literal["nvcc", "nvrtc"]
# The kinds of devices that kernels run on; scripts may ask for others, which never exist.
RunsOn = Literal["cuda", "cpu"]


class Facts(Protocol):
    """A device's properties, as its driver reports them."""

    @property
    def name(self) -> str:
        """The name that its maker gave it."""

    @property
    def arch(self) -> str:
        """Its architecture, as ``-arch`` takes it."""

    @property
    def limits(self) -> Limits:
        """Its limits."""


@dataclass(frozen=True, eq=False)
class Backend:
    """One way to compile and run kernels.

    Attributes:
        kinds: the kinds of targets it is for; the first is the one it is called by.
        language: that kernels are written in.
        device: the kind of device that they run on.
        on_gpu: whether loops are bound to the axes of a grid of threads, whose limits count.
        cxx: whether sources are C++: entries may be templates, and 16-bit floats are types.
        query: asks the driver about a device by its number; None where there is no such device.
        arch: the architecture to compile for where the target names none.
        limits_of: limits of an architecture, as far as they are known without a device.
        arch_form: what ``-arch`` must match, and what to say otherwise; None if anything goes.
        dialect: the `Dialect` that its text is printed in.
        recipes: by compiler, what makes a kernel and a target a `Recipe`.
        suffix: of the file that is compiled.
        loader: takes such a file, the kernel and the device; gives an `Executable`.
        callee: makes of a kernel, it before sizes were put in, an artifact, a device and what
            loads an `Executable` a `Callee`.
        memory: gives the `Memory` of its devices, or None where a package is missing.
        program: takes the steps of a network and the device; gives a `Program`.
        ceilings: makes the kernels that measure what its devices can do, for so many processors.
        compilers: which to try for kernels of our own, the fastest to start first.
    """

    kinds: tuple[str, ...]
    language: Language
    device: RunsOn
    on_gpu: bool
    cxx: bool
    query: Callable[[int], Facts | None]
    arch: Callable[[], str]
    limits_of: Callable[[str], Limits]
    arch_form: tuple[str, str] | None
    dialect: str
    recipes: Mapping[str, str]
    suffix: str
    loader: str
    callee: str
    memory: str
    program: str
    ceilings: str
    compilers: tuple[Compiler, ...]

    def limits(self, arch: str) -> Limits:
        """Returns the limits of the first device if it has this architecture, else by table."""
        device = self.query(0)
        if device is not None and device.arch.rstrip("a") == arch.rstrip("a"):
            return device.limits
        return self.limits_of(arch)


@functools.cache
def part(home: str) -> Any:
    """Returns what stands at a place that a row names; what it is the row's attribute says."""
    return load(home)
