"""Products of float32 with short sums, on CUDA: what is written is much more than what is read.

As in the first layer of a network over some numbers a user, or over the 27 cells of a window. A
thread keeps columns of the second matrix in registers and passes over rows of the first, which a
block has in shared memory; nothing is staged in chunks, and nothing waits twice.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from .gemm_shape import Gemm, first_names, result_name

# The longest sum, and how many numbers of the second matrix a thread may hold.
LONGEST, MOST_HELD = 64, 64
# Sums of more than so many run so untuned where there are so many results.
LONG, MANY = 32, 2**21
# Results, and columns, from which on a product runs so where nothing was tuned.
LEAST, LEAST_COLUMNS = 2**18, 256
# Of a multiprocessor, and how many a device has.
REGISTERS, MULTIPROCESSORS = 65536, 132


class SmallKTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads = c["threads"]
        self.tile_n = c["threads"] * c["cols"]
        self.shared_bytes = 4 * shape.k * (c["tile_m"] + shape.transpose_b * self.tile_n)
        self.held = c["cols"] * shape.k
        self.registers = self.held + 4 * shape.k + c["cols"] + 24
        self.grid = (
            common.ceil_div(shape.m, c["tile_m"]),
            common.ceil_div(shape.n, self.tile_n),
        )


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype != "float32", "operands must be float32"),
        (shape.k > LONGEST, f"sums of more than {LONGEST}"),
        (shape.transpose_a, "a must be stored as [m, k]"),
        (shape.batch > 1, "there must be one matrix"),
    ]
    return common.first_broken(rules)


def suits(shape: Gemm, knobs: Container[str] = ()) -> bool:
    """Return whether a product runs so, unless ``knobs`` were chosen for `gemm_cuda`.

    On an H200 2048x512x13 took 4.1 us so and 7.5 before, 2048x2048x32 10.4 and 42.9, and
    4096x1024x16 5.9 and 7.5; 2048x2047x33 13.4 and 22.7, and of 64 22.6 and 26.8.
    """
    least = LEAST if shape.k <= LONG else MANY
    many = shape.m * shape.n >= least and shape.n >= LEAST_COLUMNS
    return many and refusal(shape) is None and "threads_m" not in knobs


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "threads": [64, 128, 256],
        "cols": [v for v in (1, 2, 4) if shape.n % v == 0],
        "tile_m": [4, 8, 16, 32, 64, 128],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SmallKTiling(shape, choice), choice
    return [
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        ((c["cols"] > 1) & (tiling.held > MOST_HELD), "too many registers"),
        ((c["tile_m"] > 4) & (c["tile_m"] >= 2 * shape.m), "rows beyond the output"),
        ((c["threads"] > 64) & (tiling.tile_n >= 2 * shape.n), "columns beyond the output"),
        (tiling.grid[1] > target.limits.grid_dim[1], "too many blocks"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: until the first product, of rows, and of blocks.

    Choices may be arrays of them.
    """
    tiling, c = SmallKTiling(shape, choice), choice
    blocks = tiling.grid[0] * tiling.grid[1]
    here = common.ceil_div(blocks, MULTIPROCESSORS)
    warps = c["threads"] // 32
    # Four schedulers share the warps of all blocks of a multiprocessor.
    row = tiling.held + shape.k / 4 + 12
    busy = common.larger(here * warps / 4, 1)
    reading = here * tiling.held * warps * 0.25
    cycles: float = 1500 + busy * c["tile_m"] * row + reading + 60 * here
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return common.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, c = SmallKTiling(shape, choice), choice
    sizes = common.defines(m=shape.m, n=shape.n, k=shape.k, **c)
    names = [*first_names(shape), result_name(shape)]
    calls = [call("gemm_small_k", names, tiling.grid, tiling.threads, tiling.shared_bytes)]
    texts = ["epilogue.h", "operands.h", "gemm_small_k.cu"]
    return common.cuda_kernel(shape, texts, {**sizes, **shape.operands()}, calls)
