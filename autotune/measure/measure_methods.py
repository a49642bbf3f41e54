"""AutoTVM's name for the place of the builders and runners."""

from autotune.measure.builder import LocalBuilder
from autotune.measure.runner import LocalRunner
from autotune.measure.types import BuildResult

__all__ = ["BuildResult", "LocalBuilder", "LocalRunner"]
