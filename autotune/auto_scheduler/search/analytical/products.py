"""The common part of the analytical cost models of products on tensor cores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import cast

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu import FEATURES, kernels_seconds
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.idle import idle_seconds
from autotune.auto_scheduler.search.analytical.tiles import hint_column
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit, RowLimits
from autotune.auto_scheduler.search.space.steps import splits_of, tiling_splits
from autotune.auto_scheduler.sketch.products import product_of
from autotune.auto_scheduler.transform_steps import RfactorStep
from autotune.auto_scheduler.transform_steps.loops import PIPELINE
from autotune.ir import Add, Expr, FloorMod, IntImm, Mul, ProducerLoad, Var, substitute
from autotune.ir.structure import same, variables
from autotune.te.reindex import VIEW
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

Column = npt.NDArray[np.float64]


class ProductCostModel(ABC):
    """The analytical cost model of one program.

    Args:
        program: whose rows are looked at; its stage ``stage_id`` is a product.
        stage_id: of the product.
        device: its parameters.
        tiles: which splits of the stage it is attached to are open: of rows, then of columns.
    """

    def __init__(
        self, program: Program, stage_id: int, device: GpuParameters, tiles: tuple[int, int]
    ) -> None:
        self.program, self.device = program, device
        state = program.state
        multiplied = state.stages[stage_id]
        found = product_of(multiplied.op, multiplied.attrs.tensor_core)
        assert found is not None
        self.product = found
        copies = [state.stages[state.stage_ops.index(each)].op for each in found.operands]
        self.singly = tuple([_is_copied_singly(each, found.vector) for each in copies])
        self.batch = prod([extent_of(axis) or 1 for axis in found.batch])
        self.extents = found.extents
        # Blocks may sum a part each.
        self.in_parts = any(isinstance(each, RfactorStep) for each in state.transform_steps)
        # The stage that it is attached to.
        self.root, _ = state.attach[stage_id]
        of_root = tiling_splits(state, stage_id)
        chunk = splits_of(state.transform_steps, stage_id)[-1]
        self.steps = [*(of_root[place] for place in tiles), chunk]
        # Of splits that are open.
        self.columns = [program.columns[step] for step in self.steps if step in program.columns]
        self.pipeline = hint_column(program, stage_id, PIPELINE)
        # Products in the tiles of that stage: a block has room for the sums and copies of all.
        self.together = 1

    @abstractmethod
    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""

    @abstractmethod
    def shape(self, rows: Rows) -> ProductShape:
        """Return the shapes of the kernels of rows."""

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled: the product is."""
        return True

    @property
    def divides_steps(self) -> bool:
        """Whether steps, of parts of a sum, are a multiple of those of one instruction."""
        return not self.in_parts or self.extents[2] % self.product.depth == 0

    @cached_property
    def around_seconds(self) -> float:
        """Seconds of the kernels besides the product's: launches, and tensors between them."""
        return seconds_around(self.program, self.device, [self.root])

    @property
    def step_columns(self) -> list[int]:
        """Return the columns that say how steps are taken: the last of tiles, and buffers."""
        own = self.program.columns.get(self.steps[-1], slice(0, 0))
        found = list(range(own.start, own.stop))
        return found if self.pipeline is None else [*found, self.pipeline]

    def own_columns(self) -> list[int]:
        """Return the columns of a row on which it depends whether the product's kernel fits."""
        found = [at for each in self.columns for at in range(each.start, each.stop)]
        return found if self.pipeline is None else [*found, self.pipeline]

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows, for a `RowSampler`."""
        return RowLimits(self.budgets(), self.repair, lambda rows: self.shape(rows).feasible)

    def repair(self, rows: Rows) -> Rows:
        """Return rows with numbers changed that follow from others."""
        return rows

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows."""
        found = self.alone(rows)
        return replace(found, seconds=found.seconds + self.around_seconds)

    def alone(self, rows: Rows) -> Estimates:
        """Return the estimates of the product's kernel alone."""
        shape = self.shape(rows)
        columns = shape.features
        columns += [np.zeros(len(rows))] * (FEATURES - len(columns))
        features = np.log2(np.maximum(np.column_stack(columns), 0.0) + 1.0)
        seconds = np.where(shape.feasible, shape.seconds, np.inf)
        return Estimates(shape.feasible, seconds, features.astype(np.float32))


def seconds_around(program: Program, device: GpuParameters, roots: Sequence[int]) -> float:
    """Return the seconds besides the kernels of some stages: launches, tensors, other sums.

    Args:
        program: whose kernels they are.
        device: that runs them.
        roots: the stages whose kernels are counted elsewhere, each with its launch.
    """
    kernels = kernels_seconds(program, device)
    own = [(each, kernels.pop(each)) for each in roots]
    # What a kernel stores is passed on if another one reads it.
    last = len(program.state.stages) - 1
    passed = sum(seconds - device.launch_s for root, seconds in own if root != last)
    return sum(kernels.values()) + passed + idle_seconds(program, device)


def _is_copied_singly(copy: Operation, vector: int) -> bool:
    """Return whether neighbours of a tile that could be copied at once are not contiguous."""
    view, *others = reads_of(copy)
    if others or not view.name.endswith(f".{VIEW}") or not isinstance(view, ComputeOp):
        return False
    load = view.body[0]
    assert isinstance(load, ProducerLoad)
    first: dict[Var, Expr] = {axis.var: IntImm(0) for axis in view.axis[:-1]}
    shape = [n if isinstance(n, int) else 0 for n in load.tensor.shape]
    run, rest = 1, cast(Expr, view.axis[-1].var)
    sides = list(zip(reversed(load.indices), reversed(shape), strict=True))
    last = next((index for index, extent in sides if extent != 1), IntImm(0))
    if not _begin_at_vectors(last, view.axis[-1].var, vector):
        return True
    for index, extent in sides:
        if extent == 1:
            continue
        at = substitute(index, first)
        if same(at, rest):
            return False
        # Of a sum in parts, a part of a dimension.
        length = at.b.value if isinstance(at, FloorMod) and isinstance(at.b, IntImm) else 0
        if not length or not same(at, rest % length):
            break
        run, rest = run * length, rest // length
        if length != extent:
            break
    return run % vector != 0


def _begin_at_vectors(index: Expr, along: Var, vector: int) -> bool:
    """Return whether what is added to a place is a multiple of a vector; in a window it is not."""
    match index:
        case Add(a, b):
            return all(_begin_at_vectors(each, along, vector) for each in (a, b))
        case Mul(_, IntImm(factor)) if factor % vector == 0:
            return True
        case _:
            used = variables(index)
            return along in used or not used


class ProductShape(ABC):
    """The values of the rows, each a column.

    Attributes:
        numbers: the lengths of the splits of rows, of columns and of steps.
        buffers: of the copies in shared memory, as `PragmaStep.pipeline` counts them.
        tile_rows, tile_columns, depth: of a block.
    """

    tile_rows: Column
    tile_columns: Column
    depth: Column

    def __init__(self, cost_model: ProductCostModel, rows: Rows) -> None:
        self.device, self.product, self.singly = (
            cost_model.device,
            cost_model.product,
            cost_model.singly,
        )
        self.batch, self.extents = cost_model.batch, cost_model.extents
        self.together = cost_model.together
        program = cost_model.program
        self.numbers = [program.lengths(step, rows) for step in cost_model.steps]
        buffers = (
            rows[:, cost_model.pipeline] if cost_model.pipeline is not None else rows[:, 0] * 0
        )
        self.buffers = buffers.astype(np.float64)

    @property
    @abstractmethod
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device."""

    @property
    @abstractmethod
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""

    @property
    @abstractmethod
    def features(self) -> list[Column]:
        """Columns for a learned model."""

    @property
    def several(self) -> Column:
        """How many times operands are there: of several copies through registers twice."""
        double = (self.buffers == 1) & (self.depth < self.extents[2])
        return np.where(double, 2.0, np.maximum(self.buffers, 1.0))

    @cached_property
    def blocks(self) -> Column:
        """Blocks of the grid, of which the last of rows and columns may be cut short."""
        m, n, _ = self.extents
        return np.asarray(
            self.batch * np.ceil(m / self.tile_rows) * np.ceil(n / self.tile_columns)
        )

    @property
    def fills_a_tile(self) -> npt.NDArray[np.bool_]:
        """Whether a tile is no larger than all that there is: lowering would cut it."""
        m, n, k = self.extents
        fits = (self.tile_rows <= m) & (self.tile_columns <= n)
        return np.asarray(fits & (self.depth < k + self.product.depth))
