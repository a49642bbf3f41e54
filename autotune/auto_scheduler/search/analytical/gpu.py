"""The analytical cost model of programs for GPUs: feasibility, estimated times, features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu_columns import (
    Levels,
    Shape,
    footprint,
    strides_of,
)
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.gpu_stage import (
    MOST_ACCUMULATORS,
    STAGE_FEATURES,
    StageEstimate,
    is_large,
)
from autotune.auto_scheduler.search.analytical.idle import idle_seconds
from autotune.auto_scheduler.search.analytical.same_code import (
    PlainSum,
    plain_sums,
    with_fewest_loops,
    with_lowest_limit,
    with_lowest_plain_limits,
)
from autotune.auto_scheduler.search.analytical.tiles import (
    Column,
    Tiled,
    TileInput,
    columns_of,
    tiled_stages,
)
from autotune.auto_scheduler.search.space.annotate_gpu import ROW_UNIT, UNROLL_LIMITS
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit, RowLimits
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import ComputeAtKind
from autotune.ir.dtype import bits_of

Mask = npt.NDArray[np.bool_]
# Most steps of a reduction that one filling of shared memory is for.
_MOST_DEPTH = 256
# Most iterations of an innermost loop into which two become one.
_MOST_INNERMOST = 64
# Columns of a program: those of its slowest stage, and its own.
FEATURES = STAGE_FEATURES + 6


@dataclass(frozen=True)
class Numbers:
    """The inputs of the cost model besides the row.

    Attributes:
        tiled: the tiled stages.
        plain: sums that are not tiled.
        extra_seconds: what the kernels around the tiled ones take: launches, tensors between
            kernels, and sums of few threads.
    """

    tiled: list[Tiled]
    plain: list[PlainSum]
    extra_seconds: float | Column

    @staticmethod
    def of(program: Program, device: GpuParameters) -> Numbers:
        """Return those of a program."""
        tiled = tiled_stages(program)
        around = sum(kernels_seconds(program, device).values()) + idle_seconds(program, device)
        return Numbers(tiled, plain_sums(program, tiled), around)


class GpuCostModel:
    """The analytical cost model of one program.

    Args:
        program: whose rows are looked at.
        device: its parameters.
        numbers: what is known of the program; where rows are of several programs that differ in
            numbers alone, each number that does is a column (see `stack`).
    """

    def __init__(
        self, program: Program, device: GpuParameters, numbers: Numbers | None = None
    ) -> None:
        self.program = program
        self.device = device
        self.numbers = numbers or Numbers.of(program, device)
        self.tiled = self.numbers.tiled

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled."""
        return bool(self.tiled)

    @property
    def is_large(self) -> bool:
        """Whether all its tiled stages have very many multiply-adds; see `gpu_stage.is_large`."""
        return bool(self.tiled) and all(bool(np.all(is_large(each))) for each in self.tiled)

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows."""
        feasible = np.ones(len(rows), bool)
        extra = np.zeros(len(rows)) + self.numbers.extra_seconds
        seconds = expected = extra
        slowest = np.zeros((len(rows), STAGE_FEATURES))
        longest = np.full(len(rows), -1.0)
        for tiled in self.tiled:
            stage = StageEstimate(tiled, rows, self.device)
            feasible &= stage.feasible
            seconds = seconds + stage.seconds
            expected = expected + stage.expected_seconds
            slower = stage.seconds > longest
            slowest = np.where(slower[:, None], stage.features, slowest)
            longest = np.maximum(longest, stage.seconds)
        ones = np.ones(len(rows))
        choices = [rows[:, at] for at in self._choices[:3]]
        whole = [seconds * 1e9, len(self.tiled) * ones, extra * 1e9, *choices]
        whole += [0 * ones] * (FEATURES - STAGE_FEATURES - len(whole))
        features = np.log2(np.maximum(np.column_stack([slowest, *whole]), 0.0) + 1.0)
        return Estimates(
            feasible, np.where(feasible, expected, np.inf), features.astype(np.float32)
        )

    def repair(self, rows: Rows) -> Rows:
        """Return rows whose copies are no wider than what they copy allows, nor made too early.

        Of rows that are the same kernel one is kept (see `same_code`).
        """
        rows = rows.copy()
        for tiled in self.tiled:
            levels = Levels(tiled, rows)
            for each in tiled.inputs:
                if each.vector is None or not each.shape:
                    continue
                extents = footprint(each, levels, slice(None), slice(None))
                inner = extents[-1].astype(np.int64)
                most = np.gcd(np.gcd(inner, each.shape[-1]), max(16 // each.item, 1))
                rows[:, each.vector] = np.minimum(rows[:, each.vector], most)
                if each.row is not None:
                    _without_gaps(rows, each, extents)
            if tiled.pipeline is not None:
                chunks = Shape(tiled, levels).chunks.astype(np.int64)
                most = np.where(chunks > 1, chunks, 0)
                rows[:, tiled.pipeline] = np.minimum(rows[:, tiled.pipeline], most)
            rows = with_fewest_loops(tiled, rows, _MOST_INNERMOST)
            rows = with_lowest_limit(tiled, rows, UNROLL_LIMITS)
            if tiled.min_blocks is not None:
                rows[:, tiled.min_blocks] = StageEstimate(tiled, rows, self.device).min_blocks
        return with_lowest_plain_limits(self.numbers.plain, rows, UNROLL_LIMITS)

    def feasible(self, rows: Rows) -> Mask:
        """Return which rows keep the limits of the device."""
        fits = np.ones(len(rows), bool)
        for tiled in self.tiled:
            fits &= StageEstimate(tiled, rows, self.device).feasible
        return fits

    def apart(self, rows: Rows) -> list[tuple[list[int], Mask]]:
        """Return the columns of tiled stages, and which rows keep their limits.

        Stages that have columns in common count as one.
        """
        found: list[tuple[set[int], Mask]] = []
        for tiled in self.tiled:
            columns, fits = columns_of(tiled), StageEstimate(tiled, rows, self.device).feasible
            together = [each for each in found if each[0] & columns]
            found = [each for each in found if not each[0] & columns]
            for others, also in together:
                columns, fits = columns | others, fits & also
            found.append((columns, fits))
        return [(sorted(columns), fits) for columns, fits in found]

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows, for a `RowSampler`."""
        budgets = []
        for tiled in self.tiled:
            data = [self.program.step_of(axis.columns) for axis in tiled.data]
            chunks = [self.program.step_of(axis.columns) for axis in tiled.reductions]
            for levels, most in (
                ((1,), self.device.block_threads),
                ((0,), self.device.block_vthreads),
                ((0, 2, 3), MOST_ACCUMULATORS),
            ):
                places = {step: levels for step in data if step is not None}
                budgets.append(ProductLimit(places, float(most)))
            deep = {step: (0, 1) for step in chunks if step is not None}
            budgets.append(ProductLimit(deep, float(_MOST_DEPTH)))
        return RowLimits(budgets, self.repair, self.feasible, self.apart)

    @cached_property
    def _choices(self) -> list[int]:
        """Columns of choices that no tiled stage shows, nor follow from others."""
        shown = {
            column
            for each in self.tiled
            for column in (each.unroll, each.pipeline, each.min_blocks)
        }
        shown |= {one.vector for each in self.tiled for one in each.inputs}
        return self.program.choices_besides(shown)


def kernels_seconds(program: Program, device: GpuParameters) -> dict[int, float]:
    """Return for the stage of each kernel what its launch takes, and to pass its result on."""
    found = {}
    for stage_id, kernels in _reading_kernels(program.state).items():
        tensor = program.state.stages[stage_id].op.outputs[0]
        moved = prod([n for n in tensor.shape if isinstance(n, int)]) * bits_of(tensor.dtype) / 8
        passes = 1 + max(len(kernels), 1)
        found[stage_id] = device.launch_s + passes * moved / device.memory_bytes_per_s
    return found


def _reading_kernels(state: StateObject) -> dict[int, set[int]]:
    """Return for the stage of each kernel the stages of those kernels that read its result."""
    access, places = (
        AccessAnalyzer(state.stage_ops),
        {op: i for i, op in enumerate(state.stage_ops)},
    )
    inlined = {s.op for s in state.stages if s.compute_at is ComputeAtKind.INLINED}
    roots = [
        at
        for at, stage in enumerate(state.stages)
        if stage.is_compute and stage.compute_at is ComputeAtKind.ROOT
    ]

    def kernel(stage_id: int) -> int:
        while stage_id in state.attach:
            stage_id, _ = state.attach[stage_id]
        return stage_id

    return {
        at: {kernel(places[op]) for op in access.consumers(state.stages[at].op, inlined)} - {at}
        for at in roots
    }


def _without_gaps(rows: Rows, source: TileInput, extents: list[Column]) -> None:
    """Keep rows of a tile unpadded where padding avoids no bank conflicts."""
    assert source.row is not None
    plain = rows.copy()
    plain[:, source.row] = 0
    length = strides_of(source, plain, extents)[source.row_dimension]
    useful = (length % ROW_UNIT == 0) & (extents[source.row_dimension] > 1)
    rows[:, source.row] = np.where(useful, rows[:, source.row], 0)
