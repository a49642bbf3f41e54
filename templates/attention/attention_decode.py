"""Split-KV attention of few queries for CUDA (flash-decoding), bound by memory bandwidth.

On tensor cores by ``mma.sync``, as `attention_mma`; but the keys, not the rows of queries, are
split among the warps of a block. Each warp has a TMA pipeline of its own, so that no block barrier
is needed in the main loop, and partial results are combined in shared memory. Those of the blocks
of a split are combined by a second kernel, by programmatic dependent launch. TMA pads heads with
zeros to multiples of 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target
from autotune.errors import TemplateError

from .. import common
from ..occupancy import resident_blocks
from ..tensor_map import initializer, tensor_map
from .attention_mma import (
    LEAST_KEYS,
    MOST_EMPTY,
    MOST_REGISTERS,
    Attention,
    bias_registers,
    defines,
    launches,
)

# Rows of an MMA tile, and the most rows of queries that share keys.
TILE_ROWS, MOST_ROWS = 16, 32
# Columns of a box of TMA.
BOX_COLUMNS = 64
# Largest head size: accumulators and queries are in registers, of which the widest heads leave a
# few spilled by the least tiles of keys.
MOST_SIZE = 256
# Multiprocessors of an H100 or H200, which the blocks of a split are to fill.
MULTIPROCESSORS = 132
# Bytes of keys and values beyond which little of them stays in the L2 cache.
NEAR_BYTES = 40 * 2**20


class DecodeTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Attention, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads = 32 * c["warps"]
        self.tiles = common.ceil_div(shape.rows, TILE_ROWS)
        self.key_tiles = common.ceil_div(shape.keys, c["keys"])
        self.per_split = common.ceil_div(self.key_tiles, c["split"])
        self.empty_ranges = c["split"] - common.ceil_div(self.key_tiles, self.per_split)
        deep = padded(shape)
        self.tile_bytes = 4 * c["keys"] * deep
        partial_bytes = 4 * min(shape.rows, TILE_ROWS) * (deep + 4)
        # A circular buffer and its mbarriers for each warp, and alignment to 1024.
        buffer = c["stages"] * self.tile_bytes
        self.shared_bytes = (
            c["warps"] * (common.larger(buffer, partial_bytes) + 8 * c["stages"]) + 1024
        )
        every = 3 * deep // 4 + c["keys"] // 2 + bias_registers(shape, c["keys"]) + 64
        least = c["keys"] == LEAST_KEYS
        self.registers = common.pick(least, common.smaller(every, MOST_REGISTERS), every)
        self.blocks = self.tiles * shape.matrices

    def resident(self) -> int:
        """Return how many blocks fit on a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)


def padded(shape: Attention) -> int:
    """Return the columns of a head in shared memory."""
    return BOX_COLUMNS * common.ceil_div(shape.size, BOX_COLUMNS)


def refusal(shape: Attention) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    fits = shape.size <= MOST_SIZE and shape.size % 8 == 0
    return None if fits else f"size must be a multiple of 8 up to {MOST_SIZE}"


def offered(shape: Attention, target: Target) -> bool:
    """Return whether a target has TMA, and a shape few rows."""
    hopper = target.kind == "cuda" and target.arch in ("sm_90", "sm_90a") and not target.emulate
    return hopper and refusal(shape) is None and shape.rows <= MOST_ROWS


def candidates(shape: Attention) -> dict[str, list[int]]:
    """Return the values each knob may take; splits are also those that fill a device."""
    most = max(1, shape.keys // 16)
    blocks = common.ceil_div(shape.rows, TILE_ROWS) * shape.matrices
    full = {min(most, max(1, MULTIPROCESSORS * i // blocks)) for i in range(1, 5)}
    return {
        "warps": [1, 2, 4, 8],
        "keys": [16, 32, 64],
        "stages": [2, 3, 4, 6],
        "split": sorted({*common.up_to(most, (1, 2, 4, 8, 16, 32, 64, 128)), *full}),
    }


def violation(shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c = DecodeTiling(shape, choice), choice
    rules = [
        (refusal(shape) is not None, "a head size that is not supported"),
        *common.limit_rules(tiling, target.limits),
        ((c["warps"] > 1) & (c["warps"] > tiling.per_split), "a warp without keys"),
        (tiling.empty_ranges * MOST_EMPTY > c["split"], "empty ranges"),
        (
            (c["stages"] > 2) & (c["warps"] * (c["stages"] - 2) >= tiling.per_split),
            "more stages than tiles of keys",
        ),
    ]
    return common.first_broken(rules)


def estimate(shape: Attention, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: loads, or products and exponentials, and combining."""
    tiling, c = DecodeTiling(shape, choice), choice
    sms = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    blocks, resident = tiling.blocks * c["split"], tiling.resident()
    together = min(resident, common.ceil_div(blocks, sms))
    key_tiles = common.ceil_div(tiling.per_split, c["warps"])
    # A tile of keys is multiplied and its stage refilled; bounds are the bandwidth of a
    # multiprocessor and of the memory.
    far = shape.bytes > NEAR_BYTES
    # Padding is not read from memory.
    held = c["warps"] * tiling.tile_bytes * shape.size / padded(shape)
    computing = (150 + 58 * c["keys"] * padded(shape) / 128) * max(1.0, together * c["warps"] / 12)
    filling = (2000 if far else 1400) / (c["stages"] - 1)
    arriving = together * held / 30
    reading = min(blocks, sms * together) * held / (2150 if far else 2900)
    # With few warps loads and products overlap less.
    alone = 1 + 0.03 * max(0.0, 1 - together * c["warps"] / 8)
    each = max(computing, filling, arriving, reading) * alone + 40 + 60 / (c["stages"] - 1)
    combining = 0.0
    if c["split"] > 1:
        elements = c["split"] * shape.matrices * shape.rows * (shape.size + 2)
        combining = 2000.0 + 100 * c["split"] + 8 * elements / (20 * sms)
    waves = common.ceil_div(blocks, sms * resident)
    return waves * (key_tiles * each + 4500 + 60 * c["warps"]) + combining


def default_choice(shape: Attention, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        1000,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Raises:
        TemplateError: this kernel cannot serve the shape; the message says why.
    """
    if reason := refusal(shape):
        raise TemplateError(f"attention of few queries: {reason}, got {shape}")
    tiling, c = DecodeTiling(shape, choice), choice
    calls, parts = launches(shape, "attention_decode", tiling, c["split"])
    texts = [
        "dependent_launch.h",
        "mma.h",
        "barriers.h",
        "tma.h",
        "exp2.h",
        "attention.h",
        "attention_decode.cu",
    ]
    row = tensor_map(shape.keys, shape.size, shape.dtype, c["keys"], shape.key_pitch)
    parameters = {
        **defines(shape, {**c, "warps": 1}, tiling.threads, BOX_COLUMNS),
        "KEY_WARPS": c["warps"], "ROW_MAP": initializer(row),
    }  # fmt: skip
    return common.cuda_kernel(shape, texts, parameters, calls, parts)
