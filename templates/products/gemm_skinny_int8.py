"""Products of few rows of 8-bit integers: the other operand is streamed once.

So they are in the decoding of a language model with quantised weights. Warps load both operands
from global memory to registers, prefetched some steps ahead, and multiply by ``mma.sync`` (see
``gemm_skinny_int8.cu``); the blocks of a cluster split K. The other operand may be stored as [k,
n] or as [n, k], and is not copied.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from . import gemm_tma
from .gemm_half import FULL_ROWS
from .gemm_shape import Gemm, first_names, result_name

# Rows of one and of two fragments, the most that registers hold; a lane has so many columns of c.
FRAGMENT, MOST_FRAGMENTS, LANES = 16, 2, 8
# Integers along K that a warp takes at a time.
STEP = 64
# A knob that no other kernels of integers have: by it a configuration of a log is known.
KNOB = "strips"
# Integers of the other operand from which on it is streamed where nothing was tuned.
LEAST = 2**18
# Terms of a sum, for each column, beyond which two blocks of a cluster are too few to split it:
# 48x32x87216 took 3.8 times as long as by cuBLAS in float16 on an H100.
TERMS_A_COLUMN = 256
# Cycles that kernels before a product take to copy its operands along K, beside what they hide.
COPIED = 2600
# Of a multiprocessor, and how many a device has.
REGISTERS, SHARED_BYTES, MULTIPROCESSORS = 65536, 228 * 1024, 132
MOST_REGISTERS = 250


class SkinnyTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.frags_m = min(common.ceil_div(shape.m, FRAGMENT), MOST_FRAGMENTS)
        self.rows, self.strip = self.frags_m * FRAGMENT, LANES * c["vec"]
        self.threads = 32 * c["strips"] * c["ranges"]
        # Rows of sums in shared memory are an eighth longer than strips.
        self.shared_bytes = c["strips"] * c["ranges"] * self.rows * 9 * c["vec"] * 4
        self.steps = common.ceil_div(common.ceil_div(shape.k, STEP), c["ranges"] * c["split"])
        self.tiles = (
            common.ceil_div(shape.n, self.strip * c["strips"]),
            common.ceil_div(shape.m, self.rows),
        )
        self.blocks = self.tiles[0] * self.tiles[1] * c["split"]
        held = 4 * c["vec"] + 8 * self.frags_m
        # Sums, prefetched operands, and addresses.
        self.registers = 4 * self.frags_m * c["vec"] + (c["ahead"] + 1) * held + 40

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        by_registers = REGISTERS // (self.registers * self.threads)
        by_memory = SHARED_BYTES // (self.shared_bytes + 1024)
        return common.larger(1, common.smaller(by_registers, by_memory))


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype != "int8", "operands must be 8-bit integers"),
        (shape.transpose_a, "a must be stored as [m, k]"),
        (shape.k % 16 > 0, "k must be a multiple of 16"),
        (
            not shape.transpose_b and shape.n % 4 > 0,
            "n must be a multiple of 4 for a b stored as [k, n]",
        ),
        (shape.batch > 1, "there must be one matrix"),
    ]
    return common.first_broken(rules)


def suits(shape: Gemm, knobs: Container[str] = ()) -> bool:
    """Return whether a product runs so, unless ``knobs`` were chosen for other kernels."""
    if "warps_m" in knobs or refusal(shape) is not None:
        return False
    few = shape.m <= (FULL_ROWS // 2 if shape.transpose_b else FULL_ROWS)
    long = shape.k > TERMS_A_COLUMN * shape.n and gemm_tma.suits_integers(shape)
    large = shape.n * shape.k >= LEAST and not long
    return (few and large) or KNOB in knobs


def beats_copies(shape: Gemm, target: Target, knobs: Container[str] = ()) -> bool:
    """Return whether more rows run so too, since the others need b, stored as [k, n], copied.

    On an H200 95x1424x80 took 1.9 us so and 3.1 on copies, 256x160x464 2.3 and 3.2, 528x336x160
    2.7 and 3.4; 676x3208x336 11.0 and 7.3. `gemm_int8` has these copies.
    """
    few = shape.m <= FULL_ROWS
    if few or shape.transpose_b or "warps_m" in knobs or refusal(shape) is not None:
        return False
    choice = default_choice(shape, target)
    return violation(shape, choice, target) is None and _short_cycles(shape, choice) < COPIED


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    longest = common.ceil_div(shape.k, STEP)
    return {
        "vec": [v for v in (4, 8) if shape.transpose_b or shape.n % v == 0],
        "strips": [1, 2],
        # Fewer warps leave a multiprocessor waiting, and larger clusters leave some of them idle.
        "ranges": common.up_to(longest, (1, 2, 4, 8, 16))[-3:],
        "split": common.up_to(longest, (1, 2)),
        "ahead": [1, 2, 3],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SkinnyTiling(shape, choice), choice
    return [
        (tiling.threads > target.limits.threads_per_block, "too many threads"),
        (tiling.registers > MOST_REGISTERS, "too many registers a thread"),
        (tiling.registers * tiling.threads > REGISTERS, "too many registers"),
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        ((c["split"] > 1) & (not common.clusters_of(target)), "no clusters"),
        (tiling.strip * c["strips"] >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["ahead"] > tiling.steps, "more steps ahead than there are"),
        (tiling.tiles[0] > target.limits.grid_dim[0], "too many blocks"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of the latency of steps, and of the reduction.

    Its constants are a fit, without negative ones, to 164 choices of 8 products timed on an H200.
    Of those of a product the one with the least estimate took 1.00 to 1.08 times as long as the
    fastest. Choices may be arrays of them.
    """
    if shape.m > FULL_ROWS and not shape.transpose_b:
        return 2400 + 0.37 * shape.m * shape.n / MULTIPROCESSORS + _short_cycles(shape, choice)
    tiling, c = SkinnyTiling(shape, choice), choice
    resident = tiling.resident
    waves = common.ceil_div(tiling.blocks, MULTIPROCESSORS * resident)
    here = common.smaller(resident, common.ceil_div(tiling.blocks, MULTIPROCESSORS))
    warps = here * c["strips"] * c["ranges"]
    each = c["vec"] * (4.2 if shape.transpose_b else 13.5) + 20 * tiling.frags_m
    reducing = 2380 * (c["split"] > 1) + 2.7 * warps * tiling.rows * c["vec"]
    cycles: float = waves * (tiling.steps * (440 + warps * each) + reducing)
    return cycles


def _short_cycles(shape: Gemm, choice: Mapping[str, int]) -> float:
    """Return the cycles of short sums, which steps ahead hardly hide; choices may be arrays.

    The factors fit 72 choices of seven products of a b stored as [k, n] on an H200, with an error
    of 7%.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    waves = common.ceil_div(tiling.blocks, MULTIPROCESSORS * tiling.resident)
    here = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, MULTIPROCESSORS))
    warps = here * c["strips"] * c["ranges"]
    clustered = 2380 * (c["split"] > 1)
    cycles: float = waves * (tiling.steps * (138 * c["vec"] + 65 * warps) + clustered)
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, c = SkinnyTiling(shape, choice), choice
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, transpose_b=shape.transpose_b, frags_m=tiling.frags_m,
        threads=tiling.threads, resident=tiling.resident, cluster=c["split"] > 1, int8=1, tf32=0,
        bfloat16=0, **c,
    )  # fmt: skip
    run = call(
        "gemm_skinny_int8", [*first_names(shape), result_name(shape)], (*tiling.tiles, c["split"]),
        tiling.threads, tiling.shared_bytes,
    )  # fmt: skip
    texts = ["mma.h", "transpose_int8.h", "gemm_skinny_int8.cu"]
    return common.cuda_kernel(shape, texts, defines, [run])
