"""Products with weights that were packed once, ahead of time, for a CPU.

Packing takes as long as the multiplication by a few rows, and reading packed weights in the order
of memory hides their latency; so layers of networks, whose weights are known, need neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune import SourceKernel, Target, arg, call
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .. import common, cpu_tiles
from ..common import Array
from .gemm_shape import OWNER, Gemm

ACTIVATIONS = ("none", "relu")
# Bytes of a part of a panel that stays in L1, untuned, and of one that is multiplied before others
# of the same rows of weights; of rows of a that stay in L2.
_PANEL, _LONG_PANEL, _ROWS_NEAR = 24 << 10, 48 << 10, 1 << 20


@dataclass(frozen=True)
class PackedGemm(Gemm):
    """c[m, n] = a[m, k] w, of weights in blocks of columns [blocks, k, columns].

    Attributes:
        columns: of a block, as many as a vector has.
    """

    columns: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns not in cpu_tiles.LANES:
            raise TemplateError(
                f"{OWNER}: blocks have {', '.join(map(str, cpu_tiles.LANES))} columns, got {self}"
            )
        if self.epilogue.activation not in ACTIVATIONS or self.epilogue.affine:
            raise TemplateError(
                f"{OWNER}: an epilogue of bias, residual and ReLU is there on a CPU, got "
                f"{self.epilogue}"
            )

    def arguments(self) -> list[Argument]:
        """Return a, the packed weights, bias and residual if they are there, and c."""
        c = (self.m, self.n)
        return [
            arg("a", (self.m, self.k)),
            arg("w", (common.ceil_div(self.n, self.columns), self.k, self.columns)),
            *self.epilogue.arguments(self.n, c),
            arg("c", c, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        plain = super().reference()

        def product(a: Array, w: Array, *others: Array) -> Array:
            return plain(a, w.transpose(1, 0, 2).reshape(self.k, -1)[:, : self.n], *others)

        return product


def candidates(shape: PackedGemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "block_m": common.up_to(max(2 * shape.m, 16), (16, 32, 64, 128, 256, 512, 1024)),
        # Whether a panel is multiplied as a whole before the next one, so that its sums stay near.
        "by_panels": [0, 1],
        "panels": [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64],
        "depth": common.up_to(max(2 * shape.k, 64), (64, 96, 128, 192, 256, 384, 512, 1024, 2048)),
    }


def violation(shape: PackedGemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    width, lanes = c["vectors"] * shape.columns, shape.columns
    return common.first_broken([
        (unit.spills(c["rows"], c["vectors"], lanes), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        ((c["vectors"] > 1) & (width >= shape.n + lanes), "columns beyond the result"),
        ((c["panels"] > 1) & (c["panels"] * width >= 2 * shape.n), "panels beyond the result"),
    ])  # fmt: skip


def default_choice(shape: PackedGemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, unit = candidates(shape), cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.tile(
        unit, shape.m, shape.n, narrow=True, lanes_of_tile=[shape.columns]
    )
    width = vectors * lanes
    blocks = [b for b in options["block_m"] if b >= rows]
    by_panels = 4 * min(blocks[-1], shape.m) * shape.k <= _ROWS_NEAR
    held = _PANEL if by_panels else _LONG_PANEL
    depth = max([d for d in options["depth"] if 4 * d * width <= held] or options["depth"][:1])
    fits = [b for b in blocks if 4 * b * depth <= _ROWS_NEAR // 2] or blocks[:1]
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * shape.n]
    border = cpu_tiles.BORDER / shape.k
    block, together = cpu_tiles.tasks(
        target, fits, panels, (shape.m, shape.n), width,
        lambda high, wide: 8 / high + (4 + border) / wide, units=(rows, width),
    )  # fmt: skip
    tile = {"rows": rows, "vectors": vectors, "by_panels": int(by_panels)}
    return tile | {"block_m": block, "panels": together, "depth": depth}


def kernel(shape: PackedGemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, epilogue = shape, shape.epilogue
    # Of the smallest task.
    tiles = cpu_tiles.least_units(s.m, choice["block_m"], choice["rows"])
    extents = common.defines(
        m=s.m, n=s.n, k=s.k, lda=s.k, ldc=s.n, rows_left=s.m % choice["rows"],
        bias=epilogue.bias, residual=epilogue.residual, relu=epilogue.activation == "relu",
        affine=0, most_runs=1, fetched=common.ceil_div(s.columns, tiles), fetch_pitch=0,
        fetch_wide=0, lanes=s.columns, **choice,
    )  # fmt: skip
    here = {each.name for each in s.arguments()}
    names = [name if name in here else "a" for name in ("bias", "residual")]
    return SourceKernel(
        "gemm_packed",
        common.text("vectors.h", "tile.h", "panel.h", "even_parts.h", "gemm_packed.c"),
        defines=extents,
        args=s.arguments(),
        calls=[call("gemm_packed", ["a", "w", *names, "c"])],
        reference=s.reference(),
        language="c",
    )
