"""Matrix multiplication on Hopper's asynchronous tensor cores (``wgmma``).

A warpgroup of four warps multiplies 64 rows by up to 256 columns with one instruction, which reads
both operands from shared memory, asynchronously; ``mma.sync``, which reads its operands from
registers, reaches about half that rate. What follows from it:

- One warpgroup of a block is the producer, the others are consumers. The producer loads operands
  in the layout that the instruction reads (see ``kernels/wgmma.h``), up to ``stages`` K tiles
  ahead, and mbarriers in shared memory say which stages are full or empty. Loads are ``cp.async``
  of 16 bytes, so rows of a and b must be aligned to 16 bytes. Those of a convolution gather the
  rows of its implicit GEMM.
- Operands of 16-bit floats may be K-major or MN-major. Floats, which are multiplied as TF32, must
  be K-major: a as [m, k] and b as [n, k] (else see `gemm_transposed`). The hardware ignores their
  lower 13 bits, so they are truncated, not rounded.
- Accumulators stay in registers; producer warps release most of theirs to the consumers
  (``setmaxnreg``).
- Where a shape has too few tiles to fill the device, ``split`` blocks form a cluster, take a range
  of K each (split-K), and reduce through distributed shared memory.

The knobs are those of `gemm_mma`, and mean the same: a tile has ``warps_m * frags_m * 16`` rows
and ``warps_n * frags_n * 8`` columns. Every warpgroup multiplies all columns of a tile, so
``warps_n`` is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common
from ..epilogue import Epilogue
from .gemm_mma import FLOAT_STRIP_BYTES, item_bytes
from .gemm_shape import HALVES, TF32, Product, first_names, result_name

# Architecture-specific code: it runs on compute capability 9.0 and nowhere else.
ARCH = "sm_90a"
# Registers of a producer thread; the kernel text has the same number.
PRODUCER_REGISTERS = 64
# Registers that a consumer thread needs beside its accumulators.
OTHER_REGISTERS = 40
# ptxas refuses a wgmma whose accumulators and this many more exceed the registers at entry.
PRODUCT_REGISTERS = 26
# How much longer rows of windows take to load, of 16-bit floats: of 110 choices for ten layers on
# an H200 the one of the least estimate so took 1.03 times as long as the fastest, without it 1.08.
GATHERED = 3


class WgmmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.choice = choice
        self.consumer_warpgroups = common.larger(c["warps_m"] // 4, 1)
        self.threads = 128 * (self.consumer_warpgroups + 1)
        self.tile_m, self.tile_n = c["warps_m"] * c["frags_m"] * 16, c["frags_n"] * 8
        k_tiles = common.ceil_div(shape.k, c["chunk"])
        self.k_tiles = common.ceil_div(k_tiles, c["split"])
        self.per_split = c["chunk"] * self.k_tiles
        self.stage_bytes = item_bytes(shape) * c["chunk"] * (self.tile_m + self.tile_n)
        self.pipeline_bytes = c["stages"] * self.stage_bytes
        # Two mbarriers a stage, and padding to align the first to 1024 bytes. With im2col also
        # the input coordinates of each row.
        self.shared_bytes = self.pipeline_bytes + 16 * c["stages"] + 1024
        self.shared_bytes += 16 * self.tile_m * shape.gathers
        # Partial sums received from the other blocks of a cluster.
        self.reduce_bytes = 4 * self.tile_m * self.tile_n * (c["split"] - 1) // c["split"]
        self.shared_bytes += self.reduce_bytes + 16 * (c["split"] > 1)
        # Rows of floats that are no whole sectors of 32 bytes are written in strips by each warp.
        self.strips = (shape.dtype == TF32 and shape.n % 8 > 0) * (c["split"] == 1)
        self.strips_at = self.shared_bytes
        self.shared_bytes += self.strips * 4 * self.consumer_warpgroups * FLOAT_STRIP_BYTES
        self.blocks = (
            common.ceil_div(shape.m, self.tile_m),
            common.ceil_div(shape.n, self.tile_n),
        )

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        c, limits = self.choice, target.limits
        entry = limits.registers // (self.threads * resident) // 8 * 8
        consumers = self.consumer_warpgroups
        for_sums = (entry * (consumers + 1) - PRODUCER_REGISTERS) // consumers
        return (
            (c["frags_n"] * 4 + PRODUCT_REGISTERS <= entry)
            & (c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS <= for_sums)
            & (c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS <= 240)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )


def product_text(columns: int, integers: bool = False, loaded: bool = False) -> dict[str, str]:
    """Return the operands of the instruction in ``wgmma.h``, for 64 rows and so many columns.

    Args:
        columns: a multiple of 8 up to 256.
        integers: whether sums are integers.
        loaded: whether the left operand is in registers.
    """
    words, register = columns // 2, "r" if integers else "f"
    right = words + (4 if loaded else 1)
    return {
        "OWN_COLUMNS": f'"{columns}"',
        "OWN_NAMES": '"' + ", ".join(f"%{i}" for i in range(words)) + '"',
        "OWN_SUMS": ", ".join(f'"+{register}"(sum[{i}])' for i in range(words)),
        "OWN_LEFT": '"' + ", ".join(f"%{i}" for i in range(words, right)) + '"',
        "OWN_RIGHT": f'"%{right}"',
        "OWN_ADD": f'"%{right + 1}"',
    }


def begin_and_end(epilogue: Epilogue, whole: bool = True) -> dict[str, int]:
    """Return what accumulators start from, and the activation, which ``epilogue.h`` then omits.

    Args:
        whole: whether blocks have whole sums: these start with the bias, unless they are
            multiplied before it is added.
    """
    first = whole and epilogue.bias and epilogue.alpha == 1
    begins = {"BIAS_FIRST": int(first), **({"BIAS": 0} if first else {})}
    return {**begins, "LAST": epilogue.number, "ACTIVATION": 0}


def refusal(shape: Product) -> str | None:
    """Return why these instructions cannot multiply a shape, or None."""
    along_k = shape.transpose_b and not shape.transpose_a
    whole = 16 // item_bytes(shape)
    rules = [
        (shape.dtype not in (*HALVES, TF32), "operands must be 16-bit floats, or floats as TF32"),
        (
            shape.dtype == TF32 and not along_k,
            "floats must be K-major: a as [m, k] and b as [n, k] (transpose_b=True)",
        ),
        (
            shape.a_run % whole > 0 or shape.b_run % whole > 0,
            f"rows of both operands in memory must be multiples of {whole} elements",
        ),
    ]
    return common.first_broken(rules)


def has_wgmma(target: Target) -> bool:
    """Return whether a target has these instructions."""
    hopper = target.kind == "cuda" and target.arch in (ARCH, ARCH.rstrip("a"))
    return hopper and not target.emulate


def offered(shape: Product, target: Target) -> bool:
    """Return whether a target has these instructions, and they can multiply a shape."""
    return has_wgmma(target) and refusal(shape) is None


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "warps_m": [4, 8, 12, 16],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": [8, 12, 16, 24, 32],
        "chunk": [32, 64] if shape.dtype == TF32 else [64, 128],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, shape.k // 64), (1, 2, 4, 8)),
        "band": [1, 4, 8, 16],
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, limits, c = WgmmaTiling(shape, choice), target.limits, choice
    return [
        (not offered(shape, target), "no wgmma"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        (
            (not shape.transpose_b) & (tiling.tile_n % 64 > 0),
            "half a panel of an MN-major right operand",
        ),
        (tiling.tile_m >= 2 * max(shape.m, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles + 1, 2), "more stages than K tiles"),
        (c["chunk"] >= 2 * max(shape.k, 64), "a K tile beyond the reduction"),
        ((c["split"] > 1) & (tiling.per_split * (c["split"] - 1) >= shape.k), "an empty range"),
        (c["frags_m"] * c["frags_n"] // 2 % c["split"] > 0, "sums that a cluster cannot divide"),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
        (shape.batch * tiling.blocks[0] * tiling.blocks[1] > 2**31 - 1, "too many blocks"),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and loads, and the reduction."""
    tiling, c = WgmmaTiling(shape, choice), choice
    multiprocessors = target.limits.sm_count if target.limits.sm_count > 1 else 132
    # A cluster runs within one GPC, and leaves some of its multiprocessors idle.
    multiprocessors -= 4 * c["split"] if c["split"] > 2 else 0
    blocks = shape.batch * tiling.blocks[0] * tiling.blocks[1] * c["split"]
    resident = 2 if tiling.fits(2, target) else 1
    waves = common.ceil_div(blocks, multiprocessors * resident)
    together = min(resident, common.ceil_div(blocks, multiprocessors))
    # Products of 64 x 8 x 32 bytes take 4 cycles. From the L2 cache a multiprocessor loads
    # 42 bytes a cycle.
    deep = 32 // item_bytes(shape)
    products = tiling.consumer_warpgroups * c["frags_m"] * c["frags_n"] * 4 * (c["chunk"] // deep)
    rows = tiling.tile_m * (GATHERED if shape.gathers and shape.dtype in HALVES else 1)
    loads = item_bytes(shape) * c["chunk"] * (rows + tiling.tile_n) / 42
    one = max(products, loads)
    if shape.dtype == TF32:
        # Where both take long they contend, as do three warpgroups: on an H200
        # 2048x2048x2048 took 59 us by three of 64 x 192 sums, and 51 by two of 128 x 128.
        slowed = products * (1 + 0.04 * (tiling.consumer_warpgroups > 2))
        one = float((slowed**6 + loads**6) ** (1 / 6))
    # Latency that the pipeline does not hide: one stage is being multiplied, and the one before is
    # released only when that has started.
    hidden = (c["stages"] - 2) * one * together
    waiting = max(0.0, 1200 - hidden) / max(c["stages"] - 1, 1)
    work = tiling.k_tiles * (one * together + waiting)
    reducing = 2000 + tiling.reduce_bytes * c["split"] / 20 if c["split"] > 1 else 0.0
    # A scheduler issues one instruction of the epilogue a cycle.
    epilogue = 0.0
    if shape.epilogue != Epilogue():
        # A warp that is alone on its scheduler waits for its own results: on an H200 GELU of 128
        # x 192 sums took 2.6 us in four warps, and 1.2 in eight, or in two blocks of four.
        alone = tiling.consumer_warpgroups * together == 1 or shape.dtype not in HALVES
        powers = shape.epilogue.has_powers
        instructions = 8 + (24 if alone else 10) * powers
        epilogue = tiling.tile_m * tiling.tile_n * instructions / 128 * together
    return waves * (work + 3000 + reducing + epilogue)


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn_at_once(
        candidates(shape),
        5000,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of a and b: the kernel
            takes its arguments and writes its result.

    Raises:
        TemplateError: these instructions cannot multiply the shape; the message says why.
    """
    if reason := refusal(shape):
        raise TemplateError(f"gemm of {shape.dtype} by wgmma: {reason}, got {shape}")
    tiling, c, asked = WgmmaTiling(shape, choice), choice, plain or shape
    hopper = Target(f"cuda -arch={ARCH}")
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        k_per_split=tiling.per_split,
        resident=2 if tiling.fits(2, hopper) else 1, cluster=c["split"] > 1,
        tf32=shape.dtype == TF32, bfloat16=shape.dtype == "bfloat16", **choice,
    )  # fmt: skip
    begins = begin_and_end(shape.epilogue)
    halves = {"ELEMENT": 1 + HALVES.index(shape.dtype)} if shape.dtype in HALVES else {}
    strips = common.defines(strips_at=tiling.strips_at) if tiling.strips else {}
    grid = (shape.batch * tiling.blocks[0] * tiling.blocks[1], 1, c["split"])
    names = [*first_names(asked), result_name(asked)]
    run = call("gemm_wgmma", names, grid, tiling.threads, tiling.shared_bytes)
    texts = [*(["elements.h"] if halves else []), "epilogue.h", "operands.h", "mma.h", "pairs.h"]
    texts += ["barriers.h", "dependent_launch.h", "wgmma.h", "gemm_wgmma.h", "init_accumulators.h"]
    texts += ["exp2.h", "activations.h", "gemm_wgmma_epilogue.h"]
    texts += ["float_strips.h", "gemm_wgmma_float_strips.h"] if strips else []
    return common.cuda_kernel(
        asked,
        [*texts, "gemm_wgmma.cu"],
        {**defines, **shape.operands(), **halves, **begins, **strips},
        [run],
        flags=[f"-arch={ARCH}"],
    )
