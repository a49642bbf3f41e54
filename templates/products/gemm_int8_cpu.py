"""Products of rows of 8-bit integers by rows of weights on a CPU, with their requantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune import SourceKernel, Target, arg, call
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..quantised import Requantisation, check_terms

OWNER = "gemm_int8_rows"
# Rows of weights, in bytes, that stay in L2 while all rows of a task are multiplied by them.
_NEAR = 1 << 19


@dataclass(frozen=True)
class IntegerGemm:
    """c[m, n] = a[m, k] w[n, k], requantised."""

    m: int
    n: int
    k: int
    end: Requantisation

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        check_terms(OWNER, self.k)

    @property
    def flop(self) -> int:
        """Two operations for each product."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(each.bytes for each in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return a, the weights, their sums, scale, shift and the result."""
        return [
            arg("a", (self.m, self.k), self.end.dtype),
            arg("w", (self.n, self.k), "int8"),
            arg("sums", (self.n,), "int32"),
            arg("scale", (self.n,)),
            arg("shift", (self.n,)),
            arg("c", (self.m, self.n), self.end.out_dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def product(a: Array, w: Array, *channels: Array) -> Array:
            products = (a.astype("float64") + self.end.offset) @ w.astype("float64").T
            return self.end.finished(products, *channels)

        return product


def candidates(shape: IntegerGemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, (1, 2, 3, 4, 5, 6)),
        "block_m": common.up_to(max(2 * shape.m, 8), (8, 16, 32, 64, 128, 256, 512)),
        "block_n": common.up_to(max(2 * shape.n, 32), (16, 32, 64, 128, 256, 512, 1024, 4096)),
    }


def violation(shape: IntegerGemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return "a tile beyond its block" if choice["block_m"] < choice["rows"] else None


def default_choice(shape: IntegerGemm, target: Target) -> dict[str, int]:
    """Return a good guess: tiles of few remaining rows, and tasks that keep all cores busy."""
    options, cores = candidates(shape), max(target.limits.sm_count, 1)

    def cycles(rows: int) -> float:
        whole, rest = divmod(shape.m, rows)
        return whole * max(2 * rows, (rows + 4) / 2, 4) * 1.0 + rest * 4 + whole

    rows = min(options["rows"], key=lambda r: (cycles(r), -r))
    fits = [b for b in options["block_n"] if b * shape.k <= _NEAR] or options["block_n"][:1]
    tall = max(options["block_m"])
    busy = [b for b in fits if common.ceil_div(shape.n, b) >= 2 * cores]
    return {"rows": rows, "block_m": tall, "block_n": max(busy, default=min(fits))}


def kernel(shape: IntegerGemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape
    return SourceKernel(
        OWNER,
        common.text("integer_dots.h", "shuffle.h", "gemm_int8_rows.c"),
        defines={**common.defines(m=s.m, n=s.n, k=s.k, **choice), **s.end.defines()},
        args=s.arguments(),
        calls=[call(OWNER, ["a", "w", "sums", "scale", "shift", "c"])],
        reference=s.reference(),
        language="c",
    )
