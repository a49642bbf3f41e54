"""The analytical cost model of a product of a softmax of a product in parts of rows.

See `autotune.auto_scheduler.sketch.online`: scores, powers and results are in registers, what both
products read of a part in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.products import Column
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel, TensorShape
from autotune.auto_scheduler.search.analytical.tiles import hint_column
from autotune.auto_scheduler.search.space.annotate_gpu import row_gap
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS, Product, product_of
from autotune.auto_scheduler.transform_steps.loops import PIPELINE
from autotune.ir import Call, Reduce, Var, substitute
from autotune.ir.analysis_affine import constant
from autotune.ir.simplify import Simplifier
from autotune.lowering import needed_terms
from autotune.te.intrinsics import NEEDED
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

_WARP = ROWS * COLUMNS
# Rows of a thread, warps of a block at most.
_MOST_ROWS, _MOST_WARPS = 4.0, 8.0
# Registers besides scores, powers and results, and how many there can be.
_OTHER_REGISTERS, _MOST_REGISTERS = 36.0, 264.0
# Cycles of an instruction of a tensor core, and of reading its columns, which all rows of a thread
# use; instructions of a thread for a score, and for a result of a part. With these, kernels of 16
# heads of 2048 rows are estimated as they were measured on an H200, most within a fifth.
_INSTRUCTION, _READ, _SCORE, _RESULT = 8.0, 6.0, 9.0, 3.0
# How much longer a warp takes with no other one beside it.
_ALONE = 1.5
# Cycles in which a block waits for a part, by its buffers: none ahead, two through registers,
# or asynchronous ones.
_LATE = (400.0, 250.0, 150.0)


class OnlineCostModel(TensorCoreCostModel):
    """The analytical cost model of such a program.

    Args:
        program: whose rows are looked at.
        first: the stage of the product whose results are scores.
        second: that of the product that powers of these weight.
        device: its parameters.
        tiles: which splits of rows and columns are open.
    """

    def __init__(
        self,
        program: Program,
        first: int,
        second: int,
        device: GpuParameters,
        tiles: tuple[int, int] = (-2, -1),
    ) -> None:
        super(TensorCoreCostModel, self).__init__(program, second, device, tiles)
        stage = program.state.stages[first]
        scores = product_of(stage.op, stage.attrs.tensor_core)
        assert scores is not None
        # Of rows of several axes a block has some of the last one.
        self.product, self.scores = self.product.of_last_rows, scores.of_last_rows
        self.extents = self.product.extents
        self.parts = scores.extents[1] // self.extents[2]
        self.batch = prod([extent_of(axis) or 1 for axis in self.product.batch]) // self.parts
        # Where parts are joined; in tiles of the last stage.
        self.pipeline = hint_column(program, self.root, PIPELINE)
        self.joined = program.state.stages[self.root].op
        self._needed: dict[int, npt.NDArray[np.int64]] = {}
        while self.root in program.state.attach:
            self.root, _ = program.state.attach[self.root]

    @property
    def divides_steps(self) -> bool:
        """Whether steps of both are a multiple of those of one instruction."""
        return super().divides_steps and self.scores.extents[2] % self.scores.depth == 0

    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""
        rows, _, _ = self.steps
        return [
            ProductLimit({rows: (0,)}, _MOST_ROWS),
            ProductLimit({rows: (1,)}, _MOST_WARPS),
        ]

    def parts_of(self, tile_rows: int) -> npt.NDArray[np.int64]:
        """Return the parts that each block of so many rows computes, of one head."""
        if tile_rows not in self._needed:
            self._needed[tile_rows] = _parts_of(self.joined, tile_rows)
        return self._needed[tile_rows]

    def shape(self, rows: Rows) -> OnlineShape:
        """Return the shapes of the kernels of rows."""
        return OnlineShape(self, rows)


class OnlineShape(TensorShape):
    """The values of the rows, each a column."""

    def __init__(self, cost_model: OnlineCostModel, rows: Rows) -> None:
        super().__init__(cost_model, rows)
        self.take_parts(cost_model)

    def take_parts(self, cost_model: OnlineCostModel) -> None:
        """Note what the model knows of parts."""
        self.scores, self.parts_of = cost_model.scores, cost_model.parts_of
        self.parts = cost_model.parts
        self.chunk = np.full(len(self.rows), self.extents[2] / self.product.depth)
        self.depth = self.chunk * self.product.depth

    @property
    def several(self) -> Column:
        """How many times copies of a part are there: of those through registers twice."""
        return np.where(self.buffers == 1, 2.0, np.maximum(self.buffers, 1.0))

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        _, length, depth = (float(n) for n in self.scores.extents)
        length = self.extents[2]
        queries = self._bytes(self.scores, 0, self.tile_rows, depth)
        keys = self._bytes(self.scores, 1, length, depth)
        values = self._bytes(self.product, 1, self.tile_columns, self.depth)
        return np.asarray(queries + (keys + values) * self.several)

    @property
    def registers(self) -> Column:
        """Registers of a thread, about."""
        length, columns = self.extents[2], self.tile_columns
        # Scores, powers of 16 bits, and results, of four threads.
        own = self.rows * (length / 4 + length / 8 + columns / 4)
        return np.asarray(_OTHER_REGISTERS + own)

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device; tiles of rows are whole."""
        fits = (self.rows % 2 == 0) & (self.extents[0] % self.tile_rows == 0)
        fits &= self.shared_bytes <= self.device.shared_bytes - 1024
        fits &= self.registers <= self.most_registers
        fits &= self.warps * _WARP <= self.device.block_threads
        return np.asarray(fits & (self.buffers <= self.parts))

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        device = self.device
        limits = [
            device.warps // self.warps,
            device.registers // (np.minimum(self.registers, 255.0) * self.warps * _WARP),
            device.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @property
    def most_registers(self) -> Column | float:
        """How many registers a thread can have."""
        return _MOST_REGISTERS

    @property
    def gaps(self) -> bool:
        """Whether rows in shared memory begin in other banks."""
        return True

    def waits(self, parts: Column, in_turn: Column) -> Column:
        """Return how often a multiprocessor waits for a part."""
        return parts

    @cached_property
    def own(self) -> Column:
        """Cycles of a warp for a part."""
        length = self.extents[2]
        steps = self.scores.extents[2] * length + length * self.tile_columns
        reads = steps / (ROWS * self.product.depth)
        plain = self.rows * ROWS / _WARP * (length * _SCORE + self.tile_columns * _RESULT)
        return np.asarray(self.rows / 2 * reads * _INSTRUCTION + reads * _READ + plain)

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""
        device, own = self.device, self.own
        parts, in_turn = self._parts_in_turn()
        issued = np.ceil(parts * self.warps / device.schedulers) * own
        # A warp alone waits for what it has begun.
        chain = in_turn * own * _ALONE
        late = np.choose(np.minimum(self.buffers, 2).astype(int), _LATE)
        waits = self.waits(parts, in_turn) * late
        cycles = np.maximum(issued, chain) + waits + 2 * device.latency
        return np.asarray(cycles / device.clock + device.launch_s)

    def _parts_in_turn(self) -> tuple[Column, Column]:
        """Return how many parts a multiprocessor computes, and how many one after another."""
        tiles, place = np.unique(self.tile_rows, return_inverse=True)
        of_heads = [self.parts_of(int(tile)) for tile in tiles]
        longest = np.array([each.max() for each in of_heads])[place]
        share = np.array([each.mean() for each in of_heads])[place] / np.maximum(longest, 1)
        blocks = np.ceil(self.blocks / self.device.sms)
        turns = np.ceil(blocks / self.resident)
        # Blocks of a different number of parts fill each other's gaps.
        uneven = share < 1
        blocks = np.where(uneven, np.maximum(self.blocks / self.device.sms * share, 1.0), blocks)
        turns = np.where(uneven, np.maximum(blocks / self.resident, 1.0), turns)
        return blocks * longest, turns * longest

    def _bytes(
        self, product: Product, side: int, across: Column | float, depth: Column | float
    ) -> Column:
        """Return the bytes in shared memory of rows (0) or columns (1) of what a product reads."""
        transposed = product.transposed[side]
        rows, width = (depth, across) if transposed else (across, depth)
        unit, offset = row_gap(product, transposed)
        # Without gaps rows are of whole panels, of which the last may have nothing in its end.
        gap = (offset - width) % unit if self.gaps else -width % product.panel
        return np.asarray(rows * (width + gap) * product.item)


def _parts_of(joined: Operation, tile_rows: int) -> npt.NDArray[np.int64]:
    """Return the parts of rows that blocks of a head need."""
    assert isinstance(joined, ComputeOp)
    body = joined.body[0]
    assert isinstance(body, Reduce)
    (part,), rows = body.axes, joined.axis[-2]
    count = extent_of(part) or 1
    blocks = max((extent_of(rows) or 1) // tile_rows, 1)
    needed = body.condition
    if not isinstance(needed, Call) or needed.name != NEEDED:
        return np.full(blocks, count)
    block, row = Var("block", "int32"), Var("row", "int32")
    simplifier = Simplifier({block: (0, blocks - 1), row: (0, tile_rows - 1)})
    simplifier.bind(part.var, 0, count - 1)
    place = simplifier.expr(simplifier.form(block * tile_rows + row))
    condition = substitute(needed.args[0], {rows.var: place})
    gone = {row, *[axis.var for axis in joined.axis]}
    _, extent = needed_terms(simplifier, condition, part.var, count, gone)
    values = [simplifier.substitute(extent, {block: constant(i)}) for i in range(blocks)]
    return np.array([value.const for value in values])
