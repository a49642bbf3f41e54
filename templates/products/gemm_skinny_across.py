"""Products of few rows of 16-bit floats by a b stored as [k, n] whose rows are not aligned.

Vectors of 16 bytes do not divide them, and copies that they would divide take as long to make as
b to read. Every eighth row begins at the same element of a vector: a warp has only such rows, and
adds up its sums with those of others at columns shifted by as much. So b is loaded once, by whole
vectors, and multiplied by ``mma.sync`` as it is; `gemm_skinny_across.cu` says how.
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

# Rows of a, of which those of an ``mma.sync`` are 8.
MOST_ROWS = 16
# Elements of a vector, which are the classes of rows.
VECTOR = 8
# Bytes of b from which on little of it is in the L2 cache when it is read again.
FAR = 52 * 10**6
# Multiprocessors that clusters of four and more leave idle.
LEFT_IDLE = 12
TEXTS = (
    "elements.h", "mma.h", "epilogue.h", "operands.h", l2_resident.TEXT,
    "left_over.h", "gemm_skinny_across.cu",
)  # fmt: skip


class SkinnyAcrossTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        warps, frags = VECTOR * c["along"], common.ceil_div(shape.m, 8)
        self.threads = 32 * warps
        self.width = 64 * c["strips"]
        self.columns = self.width - VECTOR
        self.range = VECTOR * common.ceil_div(common.ceil_div(shape.k, c["split"]), VECTOR)
        # Rows that the warps of a class multiply at a time.
        step = 16 * c["along"]
        self.steps = common.ceil_div(self.range // VECTOR, step)
        self.tiles = common.ceil_div(shape.n, self.columns)
        self.blocks = self.tiles * c["split"]
        staged = 2 * VECTOR * 16 * (self.steps * c["along"] | 1)
        self.shared_bytes = shape.m * common.larger(staged, 4 * warps * self.width)
        self.registers = 16 * c["strips"] * (c["ahead"] + frags) + 40

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.m > MOST_ROWS, f"more than {MOST_ROWS} rows"),
        (shape.n < VECTOR, "rows of b shorter than a vector"),
        (shape.batch > 1, "there must be one matrix"),
        (shape.transpose_b, "b must be stored as [k, n]"),
        (shape.by_rows, "channels must be columns"),
    ]
    return common.first_broken(rules)


def weight_bytes(shape: Gemm) -> int:
    """Return the bytes of b."""
    return 2 * shape.n * shape.k


def stays(shape: Gemm, target: Target) -> int:
    """Return how many megabytes of b stay in the L2 cache untuned.

    8 of them made eight products of 74 to 166 MB 1.02 to 1.09 times as fast on an H200, hot and
    after 100 MB were written; 4x49999x501, 50 MB, took 13.8 and 20.4 us so, and 11.8 and 22.1.
    """
    far = weight_bytes(shape) >= FAR
    return far * l2_resident.untuned(weight_bytes(shape), target)


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {**_sizes(shape), l2_resident.KNOB: l2_resident.values(weight_bytes(shape))}


def _sizes(shape: Gemm) -> dict[str, list[int]]:
    return {
        "strips": [1, 2, 4],
        "along": [1, 2],
        "ahead": [1, 2],
        "split": common.up_to(common.ceil_div(shape.k, VECTOR), (1, 2, 4, 8)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SkinnyAcrossTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        ((c["split"] > 1) & (not common.clusters_of(target)), "no clusters"),
        ((c["split"] > 1) & (tiling.range * (c["split"] - 1) >= shape.k), "an empty range"),
        ((c["ahead"] > 1) & (tiling.steps < 2), "more steps ahead than there are"),
        ((c["along"] > 1) & (tiling.range <= 16 * VECTOR), "warps without rows"),
        ((c["strips"] > 1) & (tiling.columns >= 2 * shape.n), "columns beyond the output"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of memory, of the latency of steps, and of the reduction.

    Of some twelve choices each of 17 products on an H200 the ones of the least estimate took 1.06
    times as long as the fastest in the geometric mean, at worst 1.27 times (12x9001x2001). Choices
    may be arrays.
    """
    tiling, c = SkinnyAcrossTiling(shape, choice), choice
    count = common.multiprocessors(target) - LEFT_IDLE * (c["split"] > 2)
    size = weight_bytes(shape)
    far = size >= FAR
    waves = common.ceil_div(tiling.blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, count))
    own = waves * together * 2 * tiling.range * tiling.width / 40
    reading = common.larger(size / 2300, own) if far else own
    waiting = waves * tiling.steps * (900.0 if far else 500.0)
    cycles: float = (reading**3 + waiting**3) ** (1 / 3)
    summing = 0.6 * tiling.columns * shape.m * together
    # While a block alone begins or ends, nothing is loaded: 2x25001x1201 took 24.8 us in such ones
    # of 16 warps and 19.9 in others of 8.
    alone = 700 * far * (tiling.resident < 2)
    return cycles + 3500 + waves * (1200 * (c["split"] > 1) + summing + alone)


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
    tiling = SkinnyAcrossTiling(shape, choice)
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
    calls = [call("gemm_skinny_across", names, grid, tiling.threads, tiling.shared_bytes)]
    return common.cuda_kernel(shape, TEXTS, defines, calls)
