"""The interface of a back end: all that differs between kinds of targets.

Other code does not test whether a target "is CUDA", but reads the attributes of its back end.
Parts in higher layers are named as ``"module:name"`` and loaded on first use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from autotune.target.limits import Limits
from autotune.utils.names import load

Language = Literal["cuda", "c"]
# Of CUDA kernels; those in C have one only.
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
        kinds: the kinds of targets that it serves; the first one names it.
        language: the language of kernels.
        device: the kind of device on which they run.
        on_gpu: whether loops are bound to the axes of a grid of threads, which has limits.
        cxx: whether sources are C++, with templates as entries and types for 16-bit floats.
        query: asks the driver about a device by its number; returns None if there is none.
        arch: the architecture to compile for if the target names none.
        limits_of: the limits of an architecture, as far as they are known without a device.
        arch_form: a pattern for ``-arch`` and the message for others; None if anything is allowed.
        dialect: the `Dialect` in which text is generated.
        recipes: for each compiler, a function from a kernel and a target to a `Recipe`.
        suffix: suffix of compiled files.
        loader: a function from such a file, the kernel and the device to an `Executable`.
        callee: a function from a kernel, the kernel before sizes were filled in, an artifact, a
            device and a loader of executables to a `Callee`.
        memory: returns the `Memory` of its devices, or None if a package is missing.
        program: a function from the steps of a network and the device to a `Program`.
        ceilings: creates the kernels that measure the limits of a device, for its number of
            processors.
        energy: returns the `EnergyMeter` of a device.
        compilers: the compilers to try for internal kernels, the fastest to start first.
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
    energy: str
    compilers: tuple[Compiler, ...]

    def limits(self, arch: str) -> Limits:
        """Returns the limits of the first device if it has this architecture, else by table."""
        device = self.query(0)
        if device is not None and device.arch.rstrip("a") == arch.rstrip("a"):
            return device.limits
        return self.limits_of(arch)


@functools.cache
def part(home: str) -> Any:
    """Return the object that an attribute of a back end names as ``"module:name"``."""
    return load(home)
