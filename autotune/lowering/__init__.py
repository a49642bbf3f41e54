"""Lowering: from schedules to loop nests, and from loop nests to kernels.

`lower_schedule` does all of it. A `Plan` says of each stage which part of it is computed where,
the modules `*_nest` make loops of that, and the `PASSES` rewrite the loops in turn.
"""

from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.bounds import infer_bound, infer_bounds
from autotune.lowering.buffers import TensorStorage, TensorStorages
from autotune.lowering.extents import known
from autotune.lowering.function import LoweredFunction, LoweredKernel, buffer_bytes
from autotune.lowering.lower import Hook, lower, lower_schedule
from autotune.lowering.needed import needed_terms
from autotune.lowering.passes.table import PASSES, Pass
from autotune.lowering.passes.tensor_cores import RUN_GAP
from autotune.lowering.plan import Plan, StagePlan

__all__ = [
    "PASSES",
    "RUN_GAP",
    "BodySimplifier",
    "Hook",
    "LoweredFunction",
    "LoweredKernel",
    "Pass",
    "Plan",
    "StagePlan",
    "TensorStorage",
    "TensorStorages",
    "buffer_bytes",
    "infer_bound",
    "infer_bounds",
    "known",
    "lower",
    "lower_schedule",
    "needed_terms",
]
