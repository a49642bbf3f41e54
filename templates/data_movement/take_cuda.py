"""Rows of a table by index, for CUDA: an embedding lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune import SourceKernel, Target, arg, call
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .. import common
from ..common import Array
from .transpose_shape import ELEMENT_BYTES

INDICES = {"int32": "int", "int64": "long long"}
# Untuned: threads of a multiprocessor from which on each of them takes several vectors.
FILLING = 2048


@dataclass(frozen=True)
class TakeRows:
    """``count`` rows of a table of ``rows`` rows of ``columns`` elements."""

    rows: int
    columns: int
    count: int
    dtype: str = "float32"
    index: str = "int32"

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.count) < 1:
            raise TemplateError(f"take_rows: extents must be at least 1, got {self}")
        if self.rows * self.columns >= 2**60:
            raise TemplateError(f"take_rows: kernels index up to 2^60 elements, got {self}")
        if self.dtype not in ELEMENT_BYTES or self.index not in INDICES:
            raise TemplateError(
                f"take_rows: dtype must be one of {', '.join(ELEMENT_BYTES)} and the index int32 "
                f"or int64, got {self}"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def flop(self) -> int:
        """Elements moved: there is no arithmetic."""
        return self.count * self.columns

    @property
    def bytes(self) -> int:
        """Bytes that must move: each taken row is read once and written once."""
        return self.count * (2 * self.columns * self.element_bytes + ELEMENT_BYTES[self.index])

    def arguments(self) -> list[Argument]:
        """Return table, index and out."""
        return [
            arg("table", (self.rows, self.columns), self.dtype),
            arg("index", (self.count,), self.index),
            arg("out", (self.count, self.columns), self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def take(table: Array, index: Array) -> Array:
            rows: Array = table[index.clip(0, self.rows - 1)]
            return rows

        return take


def kernel(shape: TakeRows, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(
        bytes=shape.element_bytes, columns=shape.columns, count=shape.count, table_rows=shape.rows
    )
    knobs["Index"] = INDICES[shape.index]
    vectors = shape.count * shape.columns // choice["v"]
    blocks = common.ceil_div(vectors, choice["threads"] * choice["unroll"])
    calls = [call("take_rows", ["table", "index", "out"], blocks, choice["threads"])]
    return common.cuda_kernel(shape, ["take.cu"], knobs, calls)


def candidates(shape: TakeRows) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [32, 64, 128, 256, 512, 1024],
        "v": [v for v in (1, 2, 4, 8, 16) if shape.columns % v == 0 and v <= widest],
        "unroll": [1, 2, 4],
    }


def violation(shape: TakeRows, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    taken = choice["threads"] * choice["unroll"] * choice["v"]
    rules = [
        (choice["threads"] > target.limits.threads_per_block, "too many threads"),
        ((choice["threads"] > 32) & (taken >= 2 * shape.flop), "threads beyond the result"),
    ]
    return common.first_broken(rules)


def default_choice(shape: TakeRows, target: Target) -> dict[str, int]:
    """Return a good guess: 16-byte loads, or as many narrower ones of a thread in flight."""
    vec = max(candidates(shape)["v"])
    filling = common.multiprocessors(target) * FILLING
    several = [u for u in (4, 2, 1) if u * vec * shape.element_bytes <= 16]
    unroll = next((u for u in several if shape.flop >= u * vec * filling), 1)
    choice = {"threads": 256, "v": vec, "unroll": unroll}
    return choice if violation(shape, choice, target) is None else choice | {"threads": 32}
