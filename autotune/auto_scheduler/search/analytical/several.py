"""The analytical cost model of programs with several tiled stages, some on tensor cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel, Mask, Numbers
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.products import ProductCostModel, seconds_around
from autotune.auto_scheduler.search.analytical.tiles import tiled_stages
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import RowLimits


class SeveralCostModel:
    """The analytical cost model of one program: all its kernels keep limits, and times add up.

    Args:
        program: whose rows are looked at.
        products: the cost model of each of its products on tensor cores.
        others: that of its other tiled stages, which counts these alone.
    """

    def __init__(
        self, program: Program, products: Sequence[ProductCostModel], others: GpuCostModel
    ) -> None:
        self.program, self.products, self.others = program, products, others
        self._kernels: list[ProductCostModel | GpuCostModel] = [*products, others]
        roots = sorted({each.root for each in products})
        self._of_roots = [[each for each in products if each.root == root] for root in roots]
        for together in self._of_roots:
            for each in together:
                each.together = len(together)
        self._around_s = seconds_around(program, others.device, roots)
        self._around_s -= others.device.launch_s * (len(products) - len(roots))

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled: the products are."""
        return True

    @property
    def divides_steps(self) -> bool:
        """Whether the steps of all products are a multiple of those of one instruction."""
        return all(each.divides_steps for each in self.products)

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows, with the features of the slowest kernel."""
        found = [each.alone(rows) for each in self.products]
        if self.others.tiled:
            found.append(self.others(rows))
        fits = np.logical_and.reduce([each.feasible for each in found])
        seconds = np.stack([np.where(fits, each.seconds, 0.0) for each in found])
        slowest = seconds.argmax(axis=0)
        features = np.stack([each.features for each in found])[slowest, np.arange(len(rows))]
        return Estimates(
            fits, np.where(fits, seconds.sum(axis=0) + self._around_s, np.inf), features
        )

    def repair(self, rows: Rows) -> Rows:
        """Return rows with numbers changed that follow from others."""
        for each in self._kernels:
            rows = each.repair(rows)
        for first, *rest in self._of_roots:
            rows = rows.copy() if rest else rows
            for each in rest:
                rows[:, each.step_columns] = rows[:, first.step_columns]
        return rows

    def feasible(self, rows: Rows) -> Mask:
        """Return which rows keep the limits of the device in all kernels."""
        fits = [each.shape(rows).feasible for each in self.products]
        return np.asarray(np.logical_and.reduce([*fits, self.others.feasible(rows)]))

    def apart(self, rows: Rows) -> list[tuple[list[int], Mask]]:
        """Return the columns of each kernel, and which rows keep its limits."""
        own = []
        for together in self._of_roots:
            columns = sorted({at for each in together for at in each.own_columns()})
            fits = np.logical_and.reduce([each.shape(rows).feasible for each in together])
            own.append((columns, np.asarray(fits)))
        return [*own, *self.others.apart(rows)]

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows, for a `RowSampler`."""
        budgets = [budget for each in self._kernels for budget in each.limits().budgets]
        return RowLimits(budgets, self.repair, self.feasible, self.apart)


def other_stages(program: Program, device: GpuParameters) -> GpuCostModel:
    """Return the cost model of the tiled stages of a program that are not on tensor cores."""
    stages = program.state.stages
    tiled = [each for each in tiled_stages(program) if not stages[each.stage_id].attrs.tensor_core]
    return GpuCostModel(program, device, Numbers(tiled, [], 0.0))
