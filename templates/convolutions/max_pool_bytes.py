"""Maximum pooling of 8-bit integers for a CPU: maxima of bytes, a vector of which has 32 or 64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common
from .window_shape import Pool

# The lowest number of each type.
_LOWEST = {"int8": -128, "uint8": 0}
BYTES = tuple(_LOWEST)


@dataclass(frozen=True)
class BytePool(Pool):
    """The maximum of each window of bytes, NCHW."""

    types: ClassVar[Mapping[str, int]] = dict.fromkeys(BYTES, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "max" or self.layout != "NCHW":
            raise TemplateError(
                f"{self.owner}: of {self.dtype} a CPU pools maxima in NCHW, got "
                f"{self.kind!r} in {self.layout}"
            )


def candidates(shape: BytePool) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    # Whether columns of a stride are put apart first.
    return {"phases": [0, 1]}


def violation(shape: BytePool, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    is_apart = (choice["phases"] > 0) & (shape.window.stride[1] == 1)
    return common.first_broken([(is_apart, "phases without a stride")])


def default_choice(shape: BytePool, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return {"phases": int(shape.window.stride[1] > 1)}


def kernel(shape: BytePool, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape
    (kh, kw), (sy, sx), (dy, dx) = s.window.size, s.window.stride, s.window.dilation
    return SourceKernel(
        "max_pool",
        common.text("max_pool_bytes.c"),
        defines={
            **common.defines(
                planes=s.n * s.channels, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, kh=kh, kw=kw, sy=sy,
                sx=sx, dy=dy, dx=dx, py=s.window.padding[0], px=s.window.padding[1],
                lowest=_LOWEST[s.dtype], **choice,
            ),
            "ELEMENT": f"{s.dtype}_t",
        },
        args=s.arguments(),
        calls=[call("max_pool", ["data", "out"])],
        reference=s.reference(),
        language="c",
    )  # fmt: skip
