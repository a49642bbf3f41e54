"""The sizes of products by TMA: forms of blocks, tiles, shared memory, registers, tensor maps.

Rules and estimates are also asked about many choices at once, with arrays in place of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from autotune import Target

from .. import common
from ..convolutions import implicit_gemm_tma
from ..convolutions.conv2d_nhwc import Conv2dNhwc
from ..epilogue import Epilogue
from ..tensor_map import ROW_BYTES, initializer, tensor_map
from .gemm_mma import depth, item_bytes
from .gemm_shape import TF32, Product
from .gemm_wgmma import PRODUCT_REGISTERS

KNOB = "wgmma"
# Elements of a row of shared memory, of 128 bytes, of 16-bit floats.
PANEL = 64
# Of a thread that begins copies; the kernel text has the same.
COPY_REGISTERS = 40
# What a multiplying thread needs beside its sums.
OTHER_REGISTERS = 40
# And where it walks over tiles.
WALK_REGISTERS = 16
# Of a box of results.
BOX_BYTES = 16 * 128
# Of 16 rows of 128 results, each 16 bytes from a multiple of 128.
STRIP_BYTES = 16 * (2 * 128 + 16)
# Fragments of 8 columns of products that keep the tensor cores busy by themselves.
WIDE = 15
# Blocks that walk are as many as multiprocessors of an H100 or H200 take at a time.
MULTIPROCESSORS = 132
# And blocks of clusters of four, and of eight, that fit between those that are missing of a die.
CLUSTERED = 120
# What the bytes of a row that reaches into one line more count for beside others, and those of a
# panel of which a part is multiplied: fitted with the estimate.
STRADDLED, PARTIAL = 1.7, 0.72
# Smaller values of the knob are other families, and so are those from the second to the third.
FIRST, FEW, LARGE, JOINS = 2, 14, 19, 23


@dataclass(frozen=True)
class Form:
    """The form of a kernel: persistent or not, its clusters, and whether operands are swapped.

    Attributes:
        teams: of consumer warpgroups; 0: a block computes one tile, 1: persistent and cooperative,
            2: persistent and ping-pong.
        share: blocks of a cluster along M, among which the right operand is multicast.
        swapped: whether operands are swapped: a tile's rows are columns of c.
        beside: blocks of a cluster along N, among which the left operand is multicast.
        joins: whether split-K is reduced within a cluster.
    """

    teams: int
    share: int
    swapped: int = 0
    beside: int = 1
    joins: int = 0

    @classmethod
    def of(cls, knob: int) -> Form:
        """Return the form of a value of the knob."""
        joins = (knob == JOINS) + 0
        large = (knob >= LARGE) & (knob < JOINS)
        knob = common.pick(joins, FIRST, knob)
        place = common.pick(large, 0, knob - FIRST)
        share = common.pick(large, 2 + 2 * ((knob - LARGE) % 2), knob % 2 + 1)
        swapped = common.pick(large, (knob - LARGE) // 2, place // 6)
        return cls(place % 6 // 2, share, swapped, 1 + large, joins)

    @property
    def knob(self) -> int:
        """The value of the knob."""
        if self.joins:
            return JOINS
        if self.beside > 1:
            return LARGE + 2 * self.swapped + self.share // 2 - 1
        return FIRST + 6 * self.swapped + 2 * self.teams + self.share - 1


FORMS = (
    *(Form(teams, share, swapped) for swapped in (0, 1) for teams in range(3) for share in (1, 2)),
    *(Form(0, share, swapped, 2) for swapped in (0, 1) for share in (2, 4)),
    Form(0, 1, joins=1),
)


def in_place(epilogue: Epilogue) -> bool:
    """Return whether threads finish sums where they hold them, before boxes or columns of c."""
    return epilogue in (
        Epilogue(bias=epilogue.bias, activation=epilogue.activation),
        Epilogue(activation=epilogue.activation, alpha=epilogue.alpha),
    )


class TmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice, self.form = shape, choice, Form.of(c[KNOB])
        self.teams = common.larger(self.form.teams, 1)
        self.team_groups = common.larger(c["warps_m"] // 4, 1)
        self.groups = self.team_groups * self.teams
        self.threads = 128 * (self.groups + 1)
        self.tile_m, self.tile_n = c["warps_m"] * c["frags_m"] * 16, c["frags_n"] * 8
        self.integers, self.k = shape.dtype == "int8", depth(shape)
        self.floats, self.item = shape.dtype == TF32, item_bytes(shape)
        self.result_size = 4 if self.integers or self.floats else 2
        self.all_chunks = common.ceil_div(self.k, c["chunk"])
        self.chunks = common.ceil_div(self.all_chunks, c["split"])
        swapped = self.form.swapped
        self.m, self.n = (
            common.pick(swapped, shape.n, shape.m),
            common.pick(swapped, shape.m, shape.n),
        )
        # Columns that stand across K come in whole panels, others one by one.
        self.across = common.pick(swapped, shape.transpose_a + 0, 1 - shape.transpose_b)
        self.left_across = common.pick(swapped, 1 - shape.transpose_b, shape.transpose_a + 0)
        # Floats that stand across K get to products by registers.
        self.loaded = self.left_across * self.floats
        whole = 1 + (PANEL - 1) * self.across
        self.least = whole
        self.b_columns = common.ceil_div(self.tile_n, whole) * whole
        self.slot_bytes = self.item * c["chunk"] * (self.tile_m + self.b_columns)
        # Blocks that share copies come in whole clusters: some may have no rows or columns.
        rows = common.ceil_div(self.m, self.tile_m)
        clusters = common.ceil_div(rows, self.form.share)
        columns = common.ceil_div(common.ceil_div(self.n, self.tile_n), self.form.beside)
        self.blocks = (clusters * self.form.share, columns * self.form.beside)
        self.tiles = shape.batch * self.blocks[0] * self.blocks[1]

    @property
    def panel(self) -> int:
        """Items of a row of shared memory, of 128 bytes."""
        return ROW_BYTES // self.item

    @property
    def part_size(self) -> int:
        """Sums that the blocks of a split write."""
        return self.tiles * self.tile_m * self.tile_n

    @cached_property
    def asked_bytes(self) -> float:
        """Bytes that a block asks for of a chunk, as more where rows do not begin at a line.

        Rows of 128 bytes that do not begin at a line of the cache reach into two; some begin at
        one. Of the last panel of columns that stand across K a part may not be multiplied.
        """
        shape, swapped = self.shape, self.form.swapped
        line = 2 * PANEL if self.integers else self.panel
        a_lines = 1 + STRADDLED * (1 - math.gcd(shape.a_run, line) / line)
        b_lines = 1 + STRADDLED * (1 - math.gcd(shape.b_run, line) / line)
        left = common.pick(swapped, b_lines, a_lines) * self.tile_m / self.form.beside
        right = common.pick(swapped, a_lines, b_lines)
        partial = self.across * (self.tile_n % PANEL > 0)
        right = common.larger(right, 1 + PARTIAL * partial) * self.b_columns
        return self.item * self.choice["chunk"] * (left + right / self.form.share)

    @cached_property
    def strips(self) -> int:
        """Whether rows of c that begin anywhere are written in strips."""
        plain = self.shape.epilogue == Epilogue() and self.result_size == 2
        form = self.form
        return plain & (form.joins == 0) & ((form.swapped == 0) | (form.teams == 0))

    @cached_property
    def boxes(self) -> int:
        """Whether results go through shared memory: boxes of 64 columns, or strips.

        Floats do not: the two that a thread holds are, with its neighbours', a whole sector.
        """
        return (
            (not self.floats)
            & ((self.choice["split"] == 1) | self.form.joins)
            & ((self.shape.n % 8 == 0) | self.strips)
        )

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of results that are written from the pipeline's buffers, a box at a time."""
        wide = 128 // self.result_size
        share = common.pick(self.form.joins, self.choice["split"], 1)
        columns = common.ceil_div(self.tile_n, wide * share) * wide
        written = common.pick(self.form.swapped, self.tile_n, columns)
        return self.result_size * self.tile_m * written

    @cached_property
    def joined_bytes(self) -> int:
        """Bytes of sums that come from other blocks of a cluster, and of results behind them."""
        split = self.choice["split"]
        sums = 4 * self.tile_m * self.tile_n // split * (split - 1)
        return sums + self.boxes * self.result_bytes

    @cached_property
    def ordered(self) -> int:
        """Chunks at the end of a tile that its groups multiply one after another; 0: all at once.

        So the first group writes while the others multiply, where it finds room to write from. Of
        two teams one does so anyway, and narrow products of one group leave tensor cores idle.
        """
        stages = self.choice["stages"]
        last = self.all_chunks - self.chunks * (self.choice["split"] - 1)
        fits = (self.team_groups - 1) * self.group_bytes <= self.slot_bytes
        fits |= (self.form.teams > 0) | (self.boxes == 0)
        suits = (self.form.teams < 2) & (self.form.joins == 0) & (self.choice["frags_n"] >= WIDE)
        return (stages - 1) * ((self.team_groups > 1) & (last >= stages) & suits & fits)

    @cached_property
    def group_bytes(self) -> int:
        """Bytes that a group writes from, in a block that has one tile."""
        return common.larger(self.result_bytes // self.team_groups, 4 * STRIP_BYTES)

    @cached_property
    def box_rows(self) -> int:
        """Rows of a box of a warpgroup with swapped operands, where a block that walks has two."""
        few = self.choice["frags_n"]
        return 8 * (1 + (few % 2 == 0) + 2 * (few % 4 == 0))

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory of a block: pipeline stages, epilogue buffers and mbarriers.

        There are two mbarriers a stage, one a team and one a group; and padding to align the
        first stage to 1024 bytes.
        """
        stages, swapped = self.choice["stages"], self.form.swapped
        box_bytes = common.pick(swapped, 2 * 128 * self.box_rows, 8 * BOX_BYTES)
        return (
            stages * self.slot_bytes + 16 * stages + 8 * self.teams + 1024
            + 8 * self.groups * (swapped + (self.ordered > 0))
            + 8 * self.form.joins
            + self.boxes * (self.form.teams > 0) * self.groups * box_bytes
        )  # fmt: skip

    @property
    def written_rows(self) -> int:
        """Rows of a box of results."""
        if not self.form.swapped:
            return 16
        return self.box_rows if self.form.teams else self.tile_n

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        c, limits = self.choice, target.limits
        entry = limits.registers // (self.threads * resident) // 8 * 8
        for_sums = (entry * (self.groups + 1) - COPY_REGISTERS) // self.groups // 8 * 8
        needed = c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS
        needed += WALK_REGISTERS * (self.form.teams > 0)
        needed += self.loaded * c["frags_m"] * c["chunk"] // 2
        return (
            (self.threads <= limits.threads_per_block)
            & (c["frags_n"] * 4 + PRODUCT_REGISTERS <= entry)
            & (needed <= for_sums)
            & (needed <= 240)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )

    def resident(self, target: Target) -> int:
        """Return how many blocks a multiprocessor has at a time: one, or two that fit."""
        return 1 + self.fits(2, target)

    def grid(self, target: Target) -> int:
        """Return how many blocks there are, of each range of a split."""
        if self.form.teams == 0:
            return self.tiles
        return min(self.tiles, MULTIPROCESSORS * self.resident(target))

    def maps(self, asked: Product) -> dict[str, str]:
        """Return the maps of a, b and c, of which those of a and b may be padded copies."""
        s, c, k = self.shape, self.choice, self.k
        turns = (s.transpose_a, s.transpose_b)
        if self.form.swapped:
            turns = (not s.transpose_b, not s.transpose_a)
        share = self.tile_n // self.form.share
        a_rows = self.tile_m // self.form.beside
        a = (k, self.m, c["chunk"]) if turns[0] else (self.m, k, a_rows)
        b = (self.n, k, share) if turns[1] else (k, self.n, c["chunk"])
        sides = {"A_MAP": a, "B_MAP": b}
        if self.boxes and asked.n % 8 == 0:
            sides["C_MAP"] = (asked.m, asked.n, self.written_rows)
        # Copies leave numbers as they are: of integers a map need only know the size.
        kinds = {"C_MAP": "tf32"} if self.integers else {}
        kind = "float16" if self.integers else s.dtype
        maps = {
            name: tensor_map(rows, columns, kinds.get(name, kind), box_rows)
            for name, (rows, columns, box_rows) in sides.items()
        }
        if isinstance(s, Conv2dNhwc):
            side, pixels = ("B_MAP", self.tile_n) if self.form.swapped else ("A_MAP", self.tile_m)
            maps[side] = implicit_gemm_tma.map_of(s, pixels)
        return {name: initializer(words) for name, words in maps.items()}
