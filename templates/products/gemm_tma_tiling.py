"""The sizes of products by TMA: kernel forms, tiles, shared memory, registers, tensor maps.

Rules and estimates are also evaluated for many choices at once, with arrays for numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from autotune import Target

from .. import common
from ..convolutions import implicit_gemm_tma
from ..convolutions.conv2d_nhwc import AcrossGroups, Conv2dNhwc
from ..convolutions.image_planes import plane_of
from ..epilogue import Epilogue
from ..tensor_map import ROW_BYTES, initializer, tensor_map
from .gemm_mma import FLOAT_STRIP_BYTES, depth, item_bytes
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_form import KNOB, Form
from .gemm_wgmma import PRODUCT_REGISTERS

# 16-bit elements of a 128-byte row of shared memory, the span of the 128-byte swizzle.
PANEL = 64
# Those that an instruction has besides its sums if its left operand is in registers, too.
LEFT_REGISTERS = 30
# Fragments of 8 columns of the narrowest tile.
LEAST_WIDTH = 2
# Registers of a producer thread; the kernel text has the same number.
PRODUCER_REGISTERS = 40
# Registers that a consumer thread needs beside its accumulators.
OTHER_REGISTERS = 40
# And those that a persistent kernel needs on top.
PERSISTENT_REGISTERS = 16
# Of a TMA box of results.
BOX_BYTES = 16 * 128
# Of 16 rows of 128 results, each row padded by 16 bytes.
STRIP_BYTES = 16 * (2 * 128 + 16)
# Fragments of 8 columns from which on one warpgroup keeps the tensor cores busy.
WIDE = 15
# Multiprocessors of an H100 or H200: the grid of a persistent kernel.
MULTIPROCESSORS = 132
# Blocks that run at a time in clusters of four or eight: GPCs have different numbers of SMs.
CLUSTERED = 120
# Weights of the bytes of unaligned rows, which touch one cache line more, and of panels that are
# multiplied in part: fitted with the estimate.
STRADDLED, PARTIAL = 1.7, 0.72


def in_place(epilogue: Epilogue) -> bool:
    """Return whether an epilogue runs on accumulators in registers, before they are stored."""
    return epilogue in (
        Epilogue(bias=epilogue.bias, activation=epilogue.activation),
        Epilogue(activation=epilogue.activation, alpha=epilogue.alpha),
    )


def starts_with_residual(shape: Product) -> bool:
    """Return whether accumulators start with the residual, where blocks have whole sums."""
    epilogue = shape.epilogue
    return epilogue.residual and epilogue.alpha == 1 and shape.dtype in HALVES


def in_registers(shape: Product) -> bool:
    """Return whether nothing is loaded when results are written, if blocks have whole sums."""
    epilogue = shape.epilogue
    if starts_with_residual(shape):
        epilogue = replace(epilogue, residual=False)
    return in_place(epilogue)


def widths(columns: int) -> list[int]:
    """Return widths of tiles in fragments: the narrowest of each number of tiles along N."""
    whole = common.ceil_div(columns, 8)
    narrowest = {
        width
        for width in range(LEAST_WIDTH, 33)
        if common.ceil_div(whole, common.ceil_div(whole, width)) == width
    }
    return sorted({8, 16, 24, 32} | narrowest)


def fragments(shape: Product) -> list[int]:
    """Return widths of tiles in fragments of 8 columns; those of integers are even."""
    if isinstance(shape, AcrossGroups) and shape.dtype in HALVES:
        each = shape.joined * shape.filters // 8
        least = each if shape.joined > 1 else LEAST_WIDTH
        return [width for width in range(least, min(each, 32) + 1) if each % width == 0]
    if shape.dtype in HALVES:  # blocks that share a sum divide even widths
        every = {*widths(shape.n), *widths(shape.m)}
        if plane_of(shape) % 2:  # rows of strips that are in different banks
            return sorted({width - 1 + width % 2 for width in every} - {1})
        return sorted(every | {width + width % 2 for width in every})
    if shape.dtype != "int8":
        return sorted({*widths(shape.n), *widths(shape.m)})
    columns = shape.n if shape.transpose_b else shape.m  # otherwise operands are swapped
    return sorted({width + width % 2 for width in widths(columns)})


class TmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice, self.form = shape, choice, Form.of(c[KNOB])
        self.tiles_in_flight = common.larger(self.form.schedule, 1)
        self.tile_warpgroups = common.larger(c["warps_m"] // 4, 1)
        self.consumer_warpgroups = self.tile_warpgroups * self.tiles_in_flight
        self.threads = 128 * (self.consumer_warpgroups + 1)
        self.tile_m, self.tile_n = c["warps_m"] * c["frags_m"] * 16, c["frags_n"] * 8
        self.integers = shape.dtype == "int8"
        windows = implicit_gemm_tma.depth(shape) if isinstance(shape, Conv2dNhwc) else 0
        self.k = windows or depth(shape)
        self.floats, self.item = shape.dtype == TF32, item_bytes(shape)
        self.result_size = 4 if self.integers or self.floats else 2
        self.all_k_tiles = common.ceil_div(self.k, c["chunk"])
        self.k_tiles = common.ceil_div(self.all_k_tiles, c["split"])
        swapped = self.form.swapped
        self.m, self.n = (
            common.pick(swapped, shape.n, shape.m),
            common.pick(swapped, shape.m, shape.n),
        )
        # Tiles of MN-major operands are whole panels wide; K-major ones have any width.
        self.right_mn_major = common.pick(swapped, shape.transpose_a + 0, 1 - shape.transpose_b)
        self.left_mn_major = common.pick(swapped, 1 - shape.transpose_b, shape.transpose_a + 0)
        # As TF32 and of integers, wgmma takes an MN-major left operand from registers alone.
        self.left_in_registers = self.left_mn_major * (self.floats or self.integers)
        self.right_unit = 1 + (PANEL - 1) * self.right_mn_major
        self.b_columns = common.ceil_div(self.tile_n, self.right_unit) * self.right_unit
        # Of groups that are joined b has rows of one of them.
        self.joined = shape.joined if isinstance(shape, AcrossGroups) else 1
        self.stage_bytes = self.item * c["chunk"] * (self.tile_m + self.b_columns // self.joined)
        # The grid is padded to whole clusters: some blocks may have no rows or columns.
        rows = common.ceil_div(self.m, self.tile_m)
        clusters = common.ceil_div(rows, self.form.cluster_m)
        columns = common.ceil_div(common.ceil_div(self.n, self.tile_n), self.form.cluster_n)
        self.blocks = (clusters * self.form.cluster_m, columns * self.form.cluster_n)
        self.tiles = shape.batch * self.blocks[0] * self.blocks[1]

    @property
    def panel(self) -> int:
        """Elements of a 128-byte row of shared memory."""
        return ROW_BYTES // self.item

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        form = self.form
        ranges = common.pick(form.cluster_reduce, self.choice["split"], 1)
        return form.cluster_m * form.cluster_n * ranges

    @property
    def part_size(self) -> int:
        """Partial sums that the blocks of a range of K write."""
        return self.tiles * self.tile_m * self.tile_n

    @cached_property
    def loaded_bytes(self) -> float:
        """Bytes that a block loads of a K tile, weighted by what they cost.

        Rows of 128 bytes that are not aligned to a cache line touch two. Of the last panel of an
        MN-major operand a part may not be multiplied.
        """
        shape, swapped = self.shape, self.form.swapped
        line = 2 * PANEL if self.integers else self.panel
        a_lines = 1 + STRADDLED * (1 - math.gcd(shape.a_run * self.joined, line) / line)
        b_lines = 1 + STRADDLED * (1 - math.gcd(shape.b_run, line) / line)
        # Rows beyond an operand are not read.
        rows = common.smaller(self.tile_m, self.m)
        columns = common.smaller(self.b_columns, self.n + -self.n % self.right_unit)
        left = common.pick(swapped, b_lines, a_lines) * rows / self.form.cluster_n
        right = common.pick(swapped, a_lines, b_lines)
        partial = self.right_mn_major * (self.tile_n % PANEL > 0)
        right = common.larger(right, 1 + PARTIAL * partial) * columns / self.joined
        return self.item * self.choice["chunk"] * (left + right / self.form.cluster_m)

    @cached_property
    def strips(self) -> int:
        """Whether unaligned rows of c are written in strips."""
        plain = self.shape.epilogue == Epilogue() and self.result_size == 2
        form = self.form
        return plain & (form.cluster_reduce == 0) & ((form.swapped == 0) | (form.persistent == 0))

    @cached_property
    def float_strip_bytes(self) -> int:
        """Shared memory of strips by which rows of floats that are no whole sectors are written.

        Of swapped operands neighbours in c are in different warps.
        """
        plain = self.floats and self.shape.n % 8 > 0 and not self.shape.gathers
        written = plain * (self.form.swapped == 0) * (self.choice["split"] == 1)
        return written * 4 * self.consumer_warpgroups * FLOAT_STRIP_BYTES

    @cached_property
    def smem_epilogue(self) -> int:
        """Whether results go through shared memory: TMA boxes of 64 columns, or strips.

        Those of floats do not: neighbouring threads store whole sectors of 32 bytes, and of
        integers with swapped operands two.
        """
        return (
            (not self.floats)
            & ((not self.integers) | (self.form.swapped == 0))
            & ((self.choice["split"] == 1) | self.form.cluster_reduce)
            & ((self.shape.n % 8 == 0) | self.strips)
        )

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of results that are stored from the pipeline's buffers, a box at a time."""
        wide = 128 // self.result_size
        blocks = common.pick(self.form.cluster_reduce, self.choice["split"], 1)
        columns = common.ceil_div(self.tile_n, wide * blocks) * wide
        written = common.pick(self.form.swapped, self.tile_n // blocks, columns)
        return self.result_size * self.tile_m * written

    @cached_property
    def reduce_bytes(self) -> int:
        """Bytes of partial sums received from the other blocks of a cluster, and of results."""
        split = self.choice["split"]
        sums = 4 * self.tile_m * self.tile_n // split * (split - 1)
        return sums + self.smem_epilogue * self.result_bytes

    @cached_property
    def ordered(self) -> int:
        """K tiles at the end that warpgroups multiply one after another; 0: all at once.

        So the first warpgroup runs its epilogue while the others multiply, where there is a buffer
        to store from. Ping-pong does so anyway, and narrow products of one warpgroup leave tensor
        cores idle.
        """
        stages = self.choice["stages"]
        last = self.all_k_tiles - self.k_tiles * (self.choice["split"] - 1)
        fits = (self.tile_warpgroups - 1) * self.warpgroup_bytes <= self.stage_bytes
        fits = fits | self.form.persistent | (self.smem_epilogue == 0)
        suits = (
            (self.form.schedule < 2)
            & (self.form.cluster_reduce == 0)
            & (self.choice["frags_n"] >= WIDE)
        )
        return (stages - 1) * ((self.tile_warpgroups > 1) & (last >= stages) & suits & fits)

    @cached_property
    def warpgroup_bytes(self) -> int:
        """Bytes of the epilogue buffer of a warpgroup, where a block has one tile."""
        return common.larger(self.result_bytes // self.tile_warpgroups, 4 * STRIP_BYTES)

    @cached_property
    def box_rows(self) -> int:
        """Rows of a warpgroup's store boxes with swapped operands; persistent ones have two."""
        fragments = self.choice["frags_n"]
        return 8 * (1 + (fragments % 2 == 0) + 2 * (fragments % 4 == 0))

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory of a block: pipeline stages, epilogue buffers and mbarriers.

        There are two mbarriers a stage, one for each tile in flight and one for each warpgroup;
        and padding to align the first stage to 1024 bytes.
        """
        stages, swapped = self.choice["stages"], self.form.swapped
        box_bytes = common.pick(swapped, 2 * 128 * self.box_rows, 8 * BOX_BYTES)
        return (
            stages * self.stage_bytes + 16 * stages + 8 * self.tiles_in_flight + 1024
            + 8 * self.consumer_warpgroups * (swapped + (self.ordered > 0))
            + 8 * self.form.cluster_reduce + self.float_strip_bytes
            + self.smem_epilogue * self.form.persistent * self.consumer_warpgroups * box_bytes
        )  # fmt: skip

    @property
    def written_rows(self) -> int:
        """Rows of a TMA box of results."""
        if not self.form.swapped:
            return 16
        blocks = self.choice["split"] if self.form.cluster_reduce else 1
        return self.box_rows if self.form.persistent else self.tile_n // blocks

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        c, limits = self.choice, target.limits
        entry = limits.registers // (self.threads * resident) // 8 * 8
        consumers = self.consumer_warpgroups
        for_sums = (entry * (consumers + 1) - PRODUCER_REGISTERS) // consumers // 8 * 8
        needed = (
            c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS
            + PERSISTENT_REGISTERS * self.form.persistent
            + self.left_in_registers * c["frags_m"] * c["chunk"] // 2
        )  # fmt: skip
        product = common.pick(self.left_in_registers, LEFT_REGISTERS, PRODUCT_REGISTERS)
        return (
            (self.threads <= limits.threads_per_block)
            & (c["frags_n"] * 4 + product <= entry)
            & (needed <= for_sums)
            & (needed <= 240)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )

    def resident(self, target: Target) -> int:
        """Return how many blocks a multiprocessor has at a time: one, or two that fit."""
        return 1 + self.fits(2, target)

    def grid(self, target: Target) -> int:
        """Return the number of blocks, of each range of K."""
        if not self.form.persistent:
            return self.tiles
        return min(self.tiles, MULTIPROCESSORS * self.resident(target))

    def _rows_along_k(self, asked: Product) -> int:
        """Return rows of the maps of MN-major operands.

        Of a product they are those that are asked for: TMA fills boxes with zeros beyond. Copies
        of filters have rows of zeros between those of the taps.
        """
        return self.k if self.shape.gathers else self.k - (self.shape.k - asked.k)

    def _across(self, asked: Product) -> tuple[int, int, int]:
        """Return rows, columns and rows of a box of an MN-major left operand.

        Of integers items are two neighbours along M.
        """
        chunk = self.choice["chunk"]
        if self.integers:
            return asked.k, self.m // 2, 2 * chunk
        return self._rows_along_k(asked), self.m, chunk

    def _loads_last_rows(self, rows: int, columns: int, box_rows: int) -> bool:
        """Return whether the last rows of a K-major operand are loaded by a box of as many."""
        return not self.shape.gathers and rows % box_rows > 0

    def maps(self, asked: Product) -> dict[str, str]:
        """Return the tensor maps of a, b and c; a and b may be padded copies."""
        s, c, k = self.shape, self.choice, self.k
        transposed = (s.transpose_a, s.transpose_b)
        if self.form.swapped:
            transposed = (not s.transpose_b, not s.transpose_a)
        # A block loads its part of a tile that is multicast.
        a_rows, b_rows = self.tile_m // self.form.cluster_n, self.tile_n // self.form.cluster_m
        k_rows = self._rows_along_k(asked)
        a = self._across(asked) if transposed[0] else (self.m, k, a_rows)
        b = (self.n, k, b_rows) if transposed[1] else (k_rows, self.n, c["chunk"])
        sides = {"A_MAP": a, "B_MAP": b}
        if self.smem_epilogue and asked.n % 8 == 0:
            sides["C_MAP"] = (asked.m, asked.n, self.written_rows)
        along_k = {"A": a if not transposed[0] else None, "B": b if transposed[1] else None}
        for name, sizes in along_k.items():
            if sizes is not None and self._loads_last_rows(*sizes):
                rows, columns, box_rows = sizes
                sides[f"{name}_LAST_MAP"] = (rows, columns, rows % box_rows)
        # TMA moves bits as they are: of integers a map has any type of the same size.
        kinds = {"C_MAP": "tf32"} if self.integers else {}
        kind = "float16" if self.integers else s.dtype
        maps = {
            name: tensor_map(rows, columns, kinds.get(name, kind), box_rows)
            for name, (rows, columns, box_rows) in sides.items()
        }
        if isinstance(s, Conv2dNhwc):
            side, pixels = ("B_MAP", self.tile_n) if self.form.swapped else ("A_MAP", self.tile_m)
            maps[side] = implicit_gemm_tma.map_of(s, pixels)
            if implicit_gemm_tma.has_map_of_filters(s):
                other = "A_MAP" if self.form.swapped else "B_MAP"
                maps[other] = implicit_gemm_tma.filters_map(s)
        return {name: initializer(words) for name, words in maps.items()}
