"""Configurations that cannot be launched, which become no trials, and are told all the same."""

from __future__ import annotations

from collections.abc import Callable

from autotune.measure import LocalBuilder
from autotune.measure.outcome import as_result
from autotune.measure.types import BuildResult, MeasureInput, MeasureResult

Told = Callable[[MeasureInput, MeasureResult], object]


class RefusalBuilder(LocalBuilder):
    """A builder that tells of each proposal that it refuses, such as one with too many threads.

    Args:
        told: called with a proposal and how it fails.
    """

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def refusal(self, measure_input: MeasureInput) -> BuildResult | None:
        """Tell of a proposal that cannot run; see `LocalBuilder.refusal`."""
        refused = super().refusal(measure_input)
        if refused is not None:
            self._told(measure_input, as_result(refused))
        return refused
