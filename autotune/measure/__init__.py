"""Building, running and verifying trials, in processes that may crash without ending the run.

A `Session` measures trials of any workloads; a `Pipeline` those of one, in order. They hand a
`MeasureInput` to a `Builder` (`build`) and what it built to a `Runner` (`run`), which checks
results (`check`); `final` has what follows when the search is over.
"""

from typing import TYPE_CHECKING

from autotune.measure.build.builder import LocalBuilder
from autotune.measure.check.policy import VerifyPolicy
from autotune.measure.exclusive.devices import exclusive
from autotune.measure.interfaces import Builder, Runner
from autotune.measure.option import create_measure_batch, measure_option
from autotune.measure.pipeline import Pipeline
from autotune.measure.run.runner import LocalRunner
from autotune.measure.run.timing import TimingPolicy
from autotune.measure.session import Session
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.utils.names import lent

__all__ = [
    "BuildResult",
    "Builder",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Pipeline",
    "Runner",
    "Session",
    "TimingPolicy",
    "VerifyPolicy",
    "create_measure_batch",
    "exclusive",
    "measure_option",
]

if not TYPE_CHECKING:
    __getattr__ = lent(__name__, "RPCRunner measure measure_methods")
