"""Ablations of the auto-scheduler's search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from autotune.auto_scheduler.search import programs, tuner
from autotune.auto_scheduler.search.analytical import gpu_parameters
from autotune.auto_scheduler.search.analytical import tensor_cores as mma_model
from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel
from autotune.auto_scheduler.search.models import prior, row_model
from autotune.auto_scheduler.search.models.common_model import CommonModel
from autotune.auto_scheduler.search.space import annotate_gpu
from autotune.auto_scheduler.search.space.program import Rows
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.sketch import products, tensor_cores, warpgroups
from autotune.auto_scheduler.sketch.products import Product
from autotune.lowering.passes import tensor_cores as mma


def _without_rule(name: str) -> None:
    left = [rule for rule in programs.OUR_RULES if rule.name != name]
    setattr(programs, "OUR_RULES", tuple(left))  # noqa: B010


def _without_estimate() -> None:
    """Estimate the same time for all that is feasible."""
    estimated = GpuCostModel.__call__

    def equal(self: GpuCostModel, rows: Rows) -> Estimates:
        found = estimated(self, rows)
        return replace(found, seconds=np.where(found.feasible, 1e-5, np.inf))

    setattr(GpuCostModel, "__call__", equal)  # noqa: B010


def _without_crossover() -> None:
    setattr(RowSampler, "cross", lambda self, a, b: a[:0])  # noqa: B010


def _without_common() -> None:
    """Learn from the trials of the workload alone, and by its own trees only."""
    setattr(CommonModel, "predict", lambda self, rows, pool=None: np.zeros(len(rows)))  # noqa: B010
    setattr(row_model, "_EQUAL", 0)  # noqa: B010


def _without_pipelines() -> None:
    for name in ("PIPELINES", "PRODUCT_PIPELINES"):
        setattr(annotate_gpu, name, (0,))


def _without_beside() -> None:
    for rules in (tensor_cores, warpgroups):
        setattr(rules, "tiled_beside", lambda *_: None)  # noqa: B010


def _without_runs() -> None:
    """Read columns of products by ``mma.sync`` two at once, and leave them where they are."""
    setattr(mma._Multiplier, "_lies_along_steps", lambda *_: False)  # noqa: B010
    setattr(mma_model, "RUN_GAP", 0)  # noqa: B010


def _without_zeros() -> None:
    """Multiply on tensor cores only sums whose steps are a multiple of a tile's."""
    fits = Product.fits

    def whole(self: Product, rows: int, columns: int, steps: int) -> bool:
        return fits(self, rows, columns, steps) and self.extents[2] % steps == 0

    setattr(Product, "fits", whole)  # noqa: B010


def _without_passed() -> None:
    """Transpose floats that lie across a sum on their way to shared memory, or before."""
    setattr(products, "_lies_across", lambda *_: False)  # noqa: B010


# Structures, and ideas of how a search for a GPU looks for them.
ABLATIONS: dict[str, Callable[[], None]] = {
    "pipelines": _without_pipelines,
    "turns": lambda: setattr(warpgroups, "TILINGS", warpgroups.TILINGS[:1]),
    "beside": _without_beside,
    "vectors": lambda: setattr(annotate_gpu, "VECTOR_LENGTHS", (1,)),
    "gaps": lambda: setattr(annotate_gpu, "ROW_OFFSETS", (0,)),
    "shared": lambda: setattr(gpu_parameters, "BLOCKS", 32),
    "bounds": lambda: setattr(annotate_gpu, "MIN_BLOCKS", (0,)),
    "split": partial(_without_rule, "SplitAcrossBlocks"),
    "runs": _without_runs,
    "zeros": _without_zeros,
    "passed": _without_passed,
    "phases": partial(_without_rule, "SumInPhases"),
    "transposed": partial(_without_rule, "TransposeTiles"),
    "sums": partial(_without_rule, "SplitPlainSums"),
    "block": partial(_without_rule, "RowsInBlock"),
    "parts": partial(_without_rule, "RowsInParts"),
    "stored": partial(_without_rule, "StoreOperand"),
    "estimate": _without_estimate,
    "crossover": _without_crossover,
    "common": _without_common,
    # Batches of 64, however short the run.
    "batches": lambda: setattr(tuner, "_FEWEST", 64),
    "prior": lambda: setattr(prior, "FILE", Path("none of it")),
}
