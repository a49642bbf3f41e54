"""The result of realising a candidate: what is built, and its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.kernel.layout import TiledLayout
    from autotune.te import Tensor


@dataclass(frozen=True)
class Called:
    """A function that takes the values of the inputs and returns those of the outputs."""

    function: Callable[..., object]


@dataclass(frozen=True)
class Computed:
    """Tensors whose computes say what is right: the arguments of the kernel, in order.

    Attributes:
        tensors: the arguments.
        values: of inputs that must not be random, such as indices, by the place of the argument;
            anything that numpy reads.
    """

    tensors: tuple[Tensor, ...]
    values: Mapping[int, object] = field(default_factory=dict, compare=False, hash=False)


@dataclass(frozen=True)
class NoReference:
    """There is no reference: answers are not compared."""


Reference = Called | Computed | NoReference
NO_REFERENCE = NoReference()


@dataclass(frozen=True)
class Realisation:
    """The kernel to build for a candidate, with what its realisation determined.

    Attributes:
        what: a `SourceKernel`, a schedule with its arguments, or whatever else
            `autotune.driver.kernel_of` makes a kernel of.
        reference: how the right answer comes about.
        flop: operations of one run, as the candidate counts them; 0 where it does not.
        bytes: bytes one run moves at least; 0 where it does not say.
        layouts: in which the kernel takes its arguments, in order, None for those row by row;
            empty where all are. References and callers have them row by row.
    """

    what: object
    reference: Reference = NO_REFERENCE
    flop: float = 0.0
    bytes: float = 0.0
    layouts: tuple[TiledLayout | None, ...] = ()
