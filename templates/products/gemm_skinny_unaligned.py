"""Products of few rows of 16-bit floats by a b stored as [n, k] whose rows are not aligned.

Like those by a b stored as [k, n] (`gemm_skinny_across`), nothing is copied: a block has rows of b
that begin at one element of a vector, every eighth, and a shifted by as much. Their vectors are
multiplied by ``mma.sync`` as they are loaded, so that more rows of a than two or four, whose terms
threads of `matvec_unaligned` have in registers, cost little; `gemm_skinny_unaligned.cu` says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from ..occupancy import resident_blocks
from . import l2_resident
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .gemm_skinny_across import (
    LEFT_IDLE,
    MOST_ROWS,
    VECTOR,
    stays,
    weight_bytes,
)

TEXTS = (
    "elements.h", "mma.h", "epilogue.h", "operands.h", l2_resident.TEXT,
    "left_over.h", "gemm_skinny_unaligned.cu",
)  # fmt: skip


class SkinnyUnalignedTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        frags = common.ceil_div(shape.m, 8)
        self.threads = 32 * c["groups"] * c["along"]
        self.rows = 16 * c["groups"]
        # Terms, and elements of neighbouring rows in the first and the last vector.
        loaded = shape.k + VECTOR - 1
        self.range = VECTOR * common.ceil_div(common.ceil_div(loaded, c["split"]), VECTOR)
        self.turn = 32 * c["together"] * c["along"]
        self.turns = common.ceil_div(self.range, self.turn)
        self.tiles = VECTOR * common.ceil_div(shape.n, VECTOR * self.rows)
        self.blocks = self.tiles * c["split"]
        staged = 2 * (self.turns * self.turn + 32)
        self.shared_bytes = shape.m * common.larger(staged, 4 * c["along"] * self.rows)
        self.registers = 8 * c["together"] + 4 * frags + 48

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        fit = resident_blocks(self.threads, self.registers, self.shared_bytes)
        return common.smaller(fit, 32)


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.m > MOST_ROWS, f"more than {MOST_ROWS} rows"),
        (shape.k < VECTOR, "rows of b shorter than a vector"),
        (shape.batch > 1, "there must be one matrix"),
        (not shape.transpose_b, "b must be stored as [n, k]"),
        (shape.by_rows, "channels must be columns"),
    ]
    return common.first_broken(rules)


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {**_sizes(shape), l2_resident.KNOB: l2_resident.values(weight_bytes(shape))}


def _sizes(shape: Gemm) -> dict[str, list[int]]:
    return {
        "groups": [1, 2, 4, 8],
        "along": [1, 2, 4, 8],
        "together": [1, 2, 4],
        "split": common.up_to(common.ceil_div(shape.k, VECTOR), (1, 2, 4, 8)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SkinnyUnalignedTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.threads > 512, "more warps than share a sum well"),
        ((c["split"] > 1) & (not common.clusters_of(target)), "no clusters"),
        ((c["split"] > 1) & (tiling.range * (c["split"] - 1) >= shape.k), "an empty range"),
        ((tiling.turn > 32) & (tiling.turn >= 2 * tiling.range), "turns beyond the reduction"),
        ((c["groups"] > 1) & (VECTOR * tiling.rows >= 2 * shape.n), "columns beyond the output"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of memory, of the latency of turns, and of the reduction.

    The constants were fitted to the geometric mean of times hot and after 100 MB were written, of
    292 choices of 23 products on an H200, with an error of 18%; of those raced the ones of the
    least estimate took 1.06 times as long as the fastest. Choices may be arrays.
    """
    tiling, c = SkinnyUnalignedTiling(shape, choice), choice
    count = common.multiprocessors(target) - LEFT_IDLE * (c["split"] > 2)
    waves = common.ceil_div(tiling.blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, count))
    loaded = 2 * tiling.range * tiling.rows
    reading = common.larger(waves * together * loaded / 28, tiling.blocks * loaded / 1740)
    waiting = waves * tiling.turns * 1100.0
    cycles: float = (reading**3 + waiting**3) ** (1 / 3)
    staging = 120 * waves * shape.m * tiling.range / tiling.threads
    adding = 12 * waves * together * tiling.rows * shape.m * c["along"] / tiling.threads
    return cycles + 4500 + waves * 1300 * (c["split"] > 1) + staging + adding


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    choice = choices.best_of_all(
        _sizes(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )
    return choice | {l2_resident.KNOB: stays(shape, target)}


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Raises:
        TemplateError: this kernel cannot serve the shape; the message says why.
    """
    if reason := refusal(shape):
        raise TemplateError(f"gemm of few rows by unaligned rows: {reason}, got {shape}")
    tiling = SkinnyUnalignedTiling(shape, choice)
    defines: dict[str, int | str] = {
        **shape.operands(),
        **common.defines(
            m=shape.m, n=shape.n, k=shape.k, threads=tiling.threads, range=tiling.range,
            cluster=choice["split"] > 1,
            element=1 + HALVES.index(shape.dtype), bfloat16=shape.dtype == "bfloat16", tf32=0,
            int8=0, **l2_resident.in_256ths(weight_bytes(shape), choice),
        ),
    }  # fmt: skip
    names = [*first_names(shape), result_name(shape)]
    grid = (tiling.tiles, 1, choice["split"])
    calls = [call("gemm_skinny_unaligned", names, grid, tiling.threads, tiling.shared_bytes)]
    return common.cuda_kernel(shape, TEXTS, defines, calls)
