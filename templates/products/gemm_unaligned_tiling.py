"""The sizes of tiles of `gemm_unaligned`, its shared memory, and its tensor maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune import Target

from .. import common
from ..tensor_map import initializer, tensor_map, unswizzled_map
from .gemm_shape import Gemm
from .gemm_tma_form import KNOB
from .gemm_tma_tiling import MULTIPROCESSORS
from .gemm_unaligned_form import Form
from .gemm_wgmma import PRODUCT_REGISTERS

ITEM_BYTES, CHUNK = 2, 64
# Elements of 16 bytes.
VECTOR = 8
# Rows of results that are stored at a time.
BATCH_ROWS = 32
# Registers of a consumer thread beside its accumulators, and of a producer thread, which the
# kernel text has too.
LEFT_REGISTERS, PRODUCER_REGISTERS = 64, 40
# Clusters of one to eight blocks that an H200 runs at a time, of which a multiprocessor has one or
# two blocks (cuOccupancyMaxActiveClusters): GPCs have different numbers of multiprocessors.
CLUSTERS_AT_A_TIME = (
    (132, 66, 39, 30, 22, 17, 15, 15),
    (264, 132, 79, 62, 47, 39, 32, 30),
)


def classes_of(length: int) -> int:
    """Return how many misalignments (addresses modulo 16 bytes) rows of a length have."""
    return VECTOR // math.gcd(length, VECTOR)


@dataclass(frozen=True)
class Tiling:
    """The sizes that follow from a shape and a choice of knobs."""

    shape: Gemm
    choice: Mapping[str, int]

    @cached_property
    def form(self) -> Form:
        """What is read unaligned, and clusters."""
        return Form.of(self.choice[KNOB])

    @property
    def by_class(self) -> int:
        """Whether rows of a tile are of one class."""
        return self.form.by_class

    @property
    def classes(self) -> int:
        """Distance of the rows of a tile, in rows of a."""
        return 1 + (classes_of(self.shape.k) - 1) * self.by_class

    @property
    def consumer_warpgroups(self) -> int:
        """Consumer warpgroups, of 64 columns of c each; 1 for choices of other families."""
        return common.larger(self.choice["warps_m"] // 4, 1)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (self.consumer_warpgroups + 1)

    @property
    def tile_m(self) -> int:
        """Rows of c of a tile."""
        return self.choice["frags_n"] * 8

    @property
    def tile_n(self) -> int:
        """Columns of c of a tile."""
        return self.consumer_warpgroups * 64

    @cached_property
    def rows(self) -> int:
        """Rows of a class, which tiles divide."""
        return common.ceil_div(self.shape.m, self.classes)

    @cached_property
    def clusters_m(self) -> int:
        """Clusters along M, whose tiles are of one class."""
        of_class = common.ceil_div(self.rows, self.tile_m * self.form.cluster_m)
        return of_class * self.classes

    @cached_property
    def tiles(self) -> int:
        """Tiles of all matrices."""
        clusters = common.ceil_div(self.shape.n, self.tile_n * self.form.cluster_n)
        return self.shape.batch * self.clusters_m * clusters * self.form.blocks

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster: with split-K those of all ranges of K."""
        return self.form.blocks * self.choice["split"]

    @cached_property
    def k_tiles(self) -> int:
        """K tiles of a range of K, of which the last may have fewer."""
        before = (VECTOR - math.gcd(self.shape.k, VECTOR)) * self.by_class
        return common.ceil_div(common.ceil_div(self.shape.k + before, CHUNK), self.choice["split"])

    @property
    def sums_bytes(self) -> int:
        """Bytes of partial sums received from the other blocks of a cluster."""
        split = self.choice["split"]
        return 4 * self.tile_m * self.tile_n // split * (split - 1)

    def at_a_time(self, target: Target) -> int:
        """Return the blocks that run at a time: larger clusters leave multiprocessors idle."""
        sms = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
        resident, blocks = self.resident(target), self.cluster_blocks
        one, two = (
            sum((blocks == size) * size * count for size, count in enumerate(counts, 1))
            for counts in CLUSTERS_AT_A_TIME
        )
        most = common.larger(common.pick(resident > 1, two, one), 1)
        return common.smaller(resident * sms, most)

    @property
    def pitch(self) -> int:
        """Bytes from one row of results to the next in shared memory."""
        return ITEM_BYTES * self.tile_n + 16

    @property
    def stage_bytes(self) -> int:
        """Bytes of a K tile of a and b; each row of b has 16 more for its alignment."""
        of_b = (self.tile_n, CHUNK) if self.shape.transpose_b else (CHUNK, self.tile_n)
        return ITEM_BYTES * (CHUNK * self.tile_m + of_b[0] * (of_b[1] + VECTOR))

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory of a block: pipeline stages, two epilogue buffers, and mbarriers."""
        stages = self.choice["stages"]
        barriers = 8 * (1 + (self.choice["split"] > 1))
        return stages * (self.stage_bytes + 16) + 2 * BATCH_ROWS * self.pitch + barriers + 1024

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        limits, groups = target.limits, self.consumer_warpgroups
        entry = limits.registers // (self.threads * resident) // 8 * 8
        for_sums = (entry * (groups + 1) - PRODUCER_REGISTERS) // groups // 8 * 8
        needed = self.tile_m // 2 + LEFT_REGISTERS
        return (
            (needed <= common.smaller(for_sums, 240))
            & (self.tile_m // 2 + PRODUCT_REGISTERS + 4 <= entry)
            & (entry >= PRODUCER_REGISTERS)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )

    def resident(self, target: Target) -> int:
        """Return how many blocks a multiprocessor has at a time: one, or two that fit."""
        return 1 + self.fits(2, target)

    def a_maps(self, stored_k: int) -> str:
        """Return the tensor maps of a: of its rows, or of those of each class.

        Where its last rows are fewer than those of a box, maps with boxes of as many follow.

        Args:
            stored_k: elements from one row of a to the next.
        """
        part = self.tile_m // self.form.cluster_n
        last = (self.rows - 1) % part // 8 * 8 + 8
        boxes = [part, *[last] * (last < part)]
        return _initializers([each for rows in boxes for each in self._maps_of_a(stored_k, rows)])

    def _maps_of_a(self, stored_k: int, box_rows: int) -> list[tuple[int, ...]]:
        """Return the tensor maps of a with boxes of so many rows."""
        s = self.shape
        if not self.by_class:
            return [tensor_map(s.m, stored_k, s.dtype, box_rows)]
        return [
            tensor_map(
                common.ceil_div(s.m - row, self.classes),
                s.k + row * s.k % VECTOR,
                s.dtype,
                box_rows,
                self.classes * s.k,
            )
            for row in range(self.classes)
        ]

    @property
    def b_classes(self) -> int:
        """How many misalignments rows of b have."""
        return VECTOR if self.shape.transpose_b else classes_of(self.shape.n)

    @property
    def misalignments(self) -> int:
        """How many misalignments rows of a class have: one, or any in a batch of odd matrices."""
        s = self.shape
        unaligned = s.batch > 1 and s.shared != "b" and s.n * s.k % VECTOR > 0
        return VECTOR if unaligned else 1

    def b_maps(self) -> str:
        """Return the tensor maps of b: of each class of its rows, at each of its misalignments."""
        s = self.shape
        (rows, length), classes = s.shapes[1][-2:], self.b_classes
        box = (self.tile_n, CHUNK) if s.transpose_b else (CHUNK, self.tile_n)
        maps = [
            unswizzled_map(
                common.ceil_div(rows - row, classes),
                length + (row * length % VECTOR if self.misalignments == 1 else offset),
                s.dtype,
                (box[0] // classes, box[1] + VECTOR),
                classes * length,
            )
            for row in range(classes)
            for offset in range(self.misalignments)
        ]
        return _initializers(maps)


def _initializers(maps: Sequence[tuple[int, ...]]) -> str:
    """Return the initializers of tensor maps."""
    return ", ".join("{{" + initializer(each) + "}}" for each in maps)
