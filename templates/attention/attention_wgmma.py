"""Attention for CUDA by Hopper's asynchronous tensor core products (``wgmma``), forward.

As `attention_mma` it never writes scores to memory. It is warp specialised: a producer warpgroup
loads keys and values by TMA, and each consumer warpgroup has 64 rows of queries, in registers if
these suffice. The exponentials of a tile of keys overlap with the product by the values of the
tile before, and with the products of other warpgroups (Shah et al., "FlashAttention-3", 2024).
Where rows fill a device more than once, blocks are persistent; causal ones take long work tiles
first. Where they do not fill it once, blocks may split the keys, as in `attention_mma`. Two
consumer warpgroups are scheduled in ping-pong. The knobs are those of `attention_mma`; ``warps``
counts consumer warps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target
from autotune.errors import TemplateError

from .. import common
from ..products import gemm_wgmma
from ..tensor_map import initializer, tensor_map
from .attention_mma import Attention, bias_registers, combining_cycles, defines, launches

# Registers of a producer thread, as in the kernel text: beside three consumer warpgroups, which
# have the rest, and beside fewer.
BESIDE_THREE, PRODUCER_REGISTERS = 32, 40
# Registers of a consumer thread besides scores, their exponentials and accumulators.
OTHER_REGISTERS = 32
# Cycles before the first tile of keys and after the last.
OTHER_CYCLES = 2500
# Ranges of keys, of which each block has one.
RANGES = (1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 32, 48, 64)
TEXTS = (
    "dependent_launch.h", "mma.h", "barriers.h", "tma.h", "wgmma.h", "exp2.h", "attention.h",
    "attention_wgmma.cu",
)  # fmt: skip
# Cycles in which a warpgroup writes partial results, by the head size. With these the estimates of
# 29 choices of ten layers of few heads of 96 to 256 have the order of their times on an H200.
PARTIAL = 24
# Least head size: rows in shared memory are padded to multiples of 64.
LEAST_SIZE = 32
# Least rows of queries that share keys: fewer do not fill a tile.
FULL_ROWS = 64


class AttentionWgmmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Attention, choice: Mapping[str, int]) -> None:
        c = choice
        self.choice, self.size = choice, shape.size
        self.consumer_warpgroups = common.larger(c["warps"] // 4, 1)
        self.threads, self.tile_q = 128 * (self.consumer_warpgroups + 1), 16 * c["warps"]
        self.tiles = common.ceil_div(shape.rows, self.tile_q)
        self.key_tiles = common.ceil_div(shape.keys, c["keys"])
        self.per_split = common.ceil_div(self.key_tiles, c["split"])
        self.blocks = self.tiles * shape.matrices
        # Queries, a circular buffer of keys and values, mbarriers, and alignment to 1024.
        staged = self.tile_q + 2 * c["stages"] * c["keys"]
        wide, deep = (by * common.ceil_div(shape.size, by) for by in (64, 16))
        barriers = 2 + 4 * c["stages"] + self.consumer_warpgroups
        self.shared_bytes = 2 * staged * wide + 8 * barriers + 1024
        scores = c["keys"] // 2 + c["keys"] // 4 + bias_registers(shape, c["keys"])
        self.query_registers = deep // 4
        self.registers = scores + deep // 2 + OTHER_REGISTERS

    def _consumer_registers(self, resident: int, target: Target) -> int:
        """Return the registers that a consumer thread may have."""
        groups = self.consumer_warpgroups
        entry = target.limits.registers // (self.threads * resident) // 8 * 8
        producer = common.pick(groups > 2, BESIDE_THREE, PRODUCER_REGISTERS)
        return common.smaller((entry * (groups + 1) - producer) // groups, 240)

    def loads_queries(self, target: Target) -> bool:
        """Return whether consumers have registers for their queries."""
        resident = 2 if self.fits(2, target) else 1
        return self.registers + self.query_registers <= self._consumer_registers(resident, target)

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        limits = target.limits
        return (self.registers <= self._consumer_registers(resident, target)) & (
            resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024
        )


def refusal(shape: Attention) -> str | None:
    """Return why wgmma cannot serve a shape, or None."""
    fits = shape.size >= LEAST_SIZE and shape.size % 8 == 0
    return None if fits else f"size must be a multiple of 8 from {LEAST_SIZE} on"


def offered(shape: Attention, target: Target) -> bool:
    """Return whether a target has wgmma, the kernel serves a shape, and tiles are full."""
    return gemm_wgmma.has_wgmma(target) and refusal(shape) is None and shape.rows >= FULL_ROWS


def candidates(shape: Attention) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "warps": [4, 8, 12],
        "keys": [64, 128],
        "stages": [2, 3, 4],
        "split": common.up_to(common.ceil_div(shape.keys, 64), RANGES),
    }


def violation(shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c = AttentionWgmmaTiling(shape, choice), choice
    rules = [
        (not offered(shape, target), "no wgmma"),
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        ((c["warps"] > 4) & (tiling.tile_q >= 2 * shape.rows), "rows beyond the queries"),
        ((c["keys"] > 64) & (c["keys"] >= 2 * shape.keys), "keys beyond the last"),
        (
            (c["stages"] > 2) & (c["stages"] > tiling.per_split + 1),
            "more stages than tiles of keys",
        ),
        (tiling.per_split * (c["split"] - 1) >= tiling.key_tiles, "an empty range"),
        (
            (c["split"] > 1) & (tiling.blocks * c["split"] > 2 * common.multiprocessors(target)),
            "more ranges than run at a time",
        ),
    ]
    return common.first_broken(rules)


def estimate(shape: Attention, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the work of the busiest multiprocessor.

    On an H200 it was within 15% of 20 times, of 4 to 12 warps, heads of 64 and 128, causal or not.
    """
    tiling = AttentionWgmmaTiling(shape, choice)
    multiprocessors = common.multiprocessors(target)
    resident = 2 if tiling.fits(2, target) else 1
    split = choice["split"]
    if not shape.causal or shape.queries == 1 or split > 1:
        waves, rest = divmod(tiling.blocks * split, multiprocessors * resident)
        cycles = waves * _key_tile_cycles(tiling, resident)
        if rest:
            cycles += _key_tile_cycles(tiling, common.ceil_div(rest, multiprocessors))
        combining = combining_cycles(shape, split, multiprocessors)
        if split > 1:
            combining += PARTIAL * shape.size * tiling.consumer_warpgroups * (waves + (rest > 0))
        return tiling.per_split * cycles + OTHER_CYCLES + combining
    # Long work tiles come first: the longest one bounds the time, or all of them together, which
    # are not quite balanced.
    seen = tiling.key_tiles * (1 - 0.5 * min(1.0, shape.queries / shape.keys)) + 0.5
    together = min(resident, common.ceil_div(tiling.blocks, multiprocessors))
    every = tiling.blocks * seen * _key_tile_cycles(tiling, together)
    every /= multiprocessors * together
    longest = tiling.key_tiles * _key_tile_cycles(tiling, 1)
    return max(every + 0.25 * longest, longest) + OTHER_CYCLES


def _key_tile_cycles(tiling: AttentionWgmmaTiling, together: int) -> float:
    """Return the cycles of a tile of keys where a multiprocessor runs ``together`` blocks."""
    c, size, groups = tiling.choice, tiling.size, tiling.consumer_warpgroups * together
    # Products of 64 x 8 x 16 take 4 cycles, and 5.5 with their waits. A scheduler has 16 rows of
    # each group: an exponential of a warp takes it 8 cycles, and some six instructions more.
    products = groups * 2 * c["keys"] * size / 128 * 5.5
    powers = groups * 16 * c["keys"] / 32 * 14 + groups * (size / 2 + 80)
    loads = 4 * c["keys"] * size / 42 * together
    both = common.overlapped_cycles(products, powers, 0.8 if groups > 1 else 0.5)
    # Blocks of one group and of three run without ping-pong; short tiles wait more often.
    apart = 1.1 * (together > 1) if tiling.consumer_warpgroups == 1 else 0.0
    slower = max(1.0, apart, 1.14 * (tiling.consumer_warpgroups == 3)) + 0.1 * (c["keys"] < 128)
    return slower * (max(both, loads) + 700 / (c["stages"] - 1) / groups)


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
        TemplateError: wgmma cannot serve the shape; the message says why.
    """
    if reason := refusal(shape):
        raise TemplateError(f"attention by wgmma: {reason}, got {shape}")
    tiling = AttentionWgmmaTiling(shape, choice)
    hopper = Target(f"cuda -arch={gemm_wgmma.ARCH}")
    resident = 2 if tiling.fits(2, hopper) else 1
    capacity = common.multiprocessors(hopper) * resident
    persistent = tiling.blocks > capacity and choice["split"] == 1
    tiling.blocks = capacity if persistent else tiling.blocks
    calls, parts = launches(shape, "attention_wgmma", tiling, choice["split"])
    row = tensor_map(shape.keys, shape.size, shape.dtype, choice["keys"], shape.key_pitch)
    own = {
        **defines(shape, choice, tiling.threads),
        **_products_text(shape, choice["keys"]),
        "ROW_MAP": initializer(row),
        "QUERIES_IN_REGISTERS": int(tiling.loads_queries(hopper)),
    }
    if not persistent:  # Blocks have one work tile each, which they find in one section only.
        own["SECTION"] = shape.matrices
    return common.cuda_kernel(
        shape,
        TEXTS,
        {**own, "RESIDENT": resident, "PERSISTENT": int(persistent)},
        calls,
        parts,
        flags=[f"-arch={gemm_wgmma.ARCH}"],
    )


def _products_text(shape: Attention, keys: int) -> dict[str, str]:
    """Return the macros of ``wgmma.h`` for products with the left operand in registers."""
    columns = 16 * common.ceil_div(shape.size, 16)
    scores = gemm_wgmma.product_text(keys, loaded=True)
    return {
        **gemm_wgmma.product_text(columns, loaded=True),
        **{name.replace("OWN", "SCORES"): text for name, text in scores.items()},
    }
