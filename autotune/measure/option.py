"""Measure options: a builder and a runner, and the batch function of older scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from autotune.measure.interfaces import Builder, Runner
from autotune.measure.option_arguments import both_parts, chosen_builder, chosen_runner
from autotune.measure.pipeline import Pipeline
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.workload import Workload


class MeasureOption(TypedDict):
    """A builder and a runner."""

    builder: Builder
    runner: Runner


def measure_option(
    builder: Builder | str | Mapping[str, object], runner: Runner | str = "local"
) -> MeasureOption:
    """Choose the builder and the runner; ``"local"`` means the defaults on this machine.

    Args:
        builder: compiles; a `LocalBuilder`, ``"local"``, or a fleet, which provides both.
        runner: runs, verifies and times; a `LocalRunner` or ``"local"``.

    Raises:
        MeasureError: a string other than ``"local"``.

    Example::

        option = measure_option(LocalBuilder(timeout=20), LocalRunner(number=10, repeat=5))
    """
    builds, runs = both_parts(builder, runner)
    return {
        "builder": chosen_builder("measure_option", builds),
        "runner": chosen_runner("measure_option", runs),
    }


def local_option() -> MeasureOption:
    """Return the default builder and runner of this machine."""
    return measure_option("local", "local")


class _MeasureBatch:
    """Measures a list of inputs and waits for all of them."""

    def __init__(self, task: Workload, option: Mapping[str, object]) -> None:
        self._pipeline = Pipeline(task, option)
        session = self._pipeline.session
        self.n_parallel: int = session.builder.n_parallel
        self.attach_objects = (session.builder, session.runner)

    def __call__(self, measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        self._pipeline.submit(measure_inputs)
        results: list[MeasureResult] = []
        while self._pipeline.outstanding:
            results += [result for _, result in self._pipeline.next_results()]
        return results

    def close(self) -> None:
        """End all processes; they end by themselves with the builder and the runner."""
        self._pipeline.close()


def create_measure_batch(task: Workload, option: Mapping[str, object]) -> _MeasureBatch:
    """Return a function that measures a batch, with AutoTVM's ``n_parallel`` attribute."""
    return _MeasureBatch(task, option)
