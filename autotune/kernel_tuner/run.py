"""The configurations of one kernel: which are allowed, and what they take."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.driver import build
from autotune.errors import SpaceError, TunerError
from autotune.interchange import Trial, Trials, records_of
from autotune.kernel.source import SourceKernel
from autotune.kernel_tuner.cache import Cache
from autotune.kernel_tuner.checking import Checker
from autotune.kernel_tuner.choice import Choice
from autotune.kernel_tuner.kernels import Problem
from autotune.kernel_tuner.launch import Params, plain_number
from autotune.kernel_tuner.measured import Measured
from autotune.kernel_tuner.observers.observer import BenchmarkObserver, observed
from autotune.kernel_tuner.refusals import RefusalBuilder
from autotune.kernel_tuner.restrictions import Filter, filters_of
from autotune.kernel_tuner.results import Result, cached_result
from autotune.kernel_tuner.util import ErrorConfig, RuntimeFailedConfig
from autotune.measure import measure_option
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.target import Target
from autotune.task import TASK_TABLE, Task, create, get_config, template
from autotune.utils.check import shown

logger = logging.getLogger("autotvm")


@dataclass(frozen=True)
class _Held:
    """A value of a cache as a configuration of a template holds it."""

    val: object


@dataclass(frozen=True)
class Space:
    """The configurations that are tuned.

    Attributes:
        values: of each parameter.
        filters: what a configuration must pass.
    """

    values: Mapping[str, Sequence[object]]
    filters: Sequence[Filter]

    @classmethod
    def of(cls, tune_params: object, restrictions: object) -> Space:
        """Return the space of these arguments of `tune_kernel`.

        Raises:
            SpaceError: they are none.
        """
        if not isinstance(tune_params, Mapping):
            raise SpaceError(
                "tune_params: expected a dict of lists, such as {'block_size_x': [32, 64]}, got "
                f"{shown(tune_params)}"
            )
        values = {str(name): _values(str(name), each) for name, each in tune_params.items()}
        return cls(values, filters_of(restrictions, tuple(values)))

    @property
    def first(self) -> dict[str, Any]:
        """The first value of each parameter."""
        return {name: plain_number(each[0]) for name, each in self.values.items()}

    def allows(self, choices: Mapping[str, object]) -> bool:
        """Return whether these values are among those that are tuned, and no restriction's."""
        if any(choices[name] not in values for name, values in self.values.items()):
            return False
        held = {name: _Held(value) for name, value in choices.items()}
        return all(bool(restriction(held)) for restriction in self.filters)


def _values(name: str, given: object) -> list[object]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SpaceError(f"tune_params: {name!r}: expected a list of values, got {shown(given)}")
    if not (values := list(given)):
        raise SpaceError(f"tune_params: {name!r} has no values")
    return values


def simulated(space: Space, choice: Choice, cache: Cache | None) -> list[Result]:
    """Return results of a cache as if they were measured: nothing is compiled or run.

    Raises:
        TunerError: it has none of this space.
    """
    if cache is None:
        raise TunerError("simulation_mode: results come from a cache: give cache=")
    if not cache.path.exists():
        raise TunerError(f"simulation_mode: cache {cache.path} has no results: there is no file")
    known = [each for each in cache.read() if space.allows(each.choices)]
    if not known:
        raise TunerError(f"simulation_mode: cache {cache.path} has no results of these parameters")
    order = np.random.default_rng(choice.seed).permutation(len(known))
    few = choice.trials(len(known))
    chosen = range(len(known)) if few == len(known) else sorted(order[:few])
    return [cached_result(known[i]) for i in chosen]


class KernelRun:
    """The configurations of one kernel and what they take."""

    def __init__(
        self,
        problem: Problem,
        space: Space,
        target: Target,
        how: Measured,
        observers: Sequence[BenchmarkObserver],
        checker: Checker,
    ) -> None:
        self.problem, self.space, self.target = problem, space, target
        self._how = how
        self._observers = observers
        self._checker = checker

    def results(self, choice: Choice, cache: Cache | None) -> list[Result]:
        """Return what configurations take, those of the cache first."""
        known = [] if cache is None else cache.read()
        known = [each for each in known if self.space.allows(each.choices)]
        task = self._task()
        try:
            new = self._measured(task, choice, known, cache)
            for each in new:
                self._observe(each)
            return [*map(cached_result, known), *new]
        finally:
            TASK_TABLE.pop(task.name, None)
            if cache is not None:
                cache.write()

    def _task(self) -> Task:
        """Register a template of the kernel, and return its task."""
        name = f"kernel_tuner/{self.problem.name}"
        TASK_TABLE.pop(name, None)

        @template(name)
        def tuned(*size: int) -> SourceKernel:
            del size
            cfg = get_config()
            for each, values in self.space.values.items():
                cfg.define_knob(each, [plain_number(value) for value in values])
            for restriction in self.space.filters:
                cfg.multi_filter(restriction)
            return self.problem.kernel({each: cfg[each].val for each in self.space.values})

        size = self.problem.rule.size(self.space.first)
        return create(name, args=size, target=self.target)

    def _measured(
        self, task: Task, choice: Choice, known: Sequence[Trial], cache: Cache | None
    ) -> list[Result]:
        found: list[Result] = []

        def keep(
            _: object, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
        ) -> None:
            new = [self._how.result(i, r) for i, r in zip(inputs, results, strict=True)]
            found.extend(new)
            if cache is not None:
                cache.add(new)

        runner = self._how.runner(self.problem.values())
        builder = RefusalBuilder(lambda inp, result: keep(None, [inp], [result]))
        # Those of the cache that cannot be launched are none of the configurations that are tried.
        invalid = sum(each.error_no == MeasureErrorNo.INSTANTIATION_ERROR for each in known)
        choice.tuner(task).tune(
            choice.trials(task.config_space.valid_count) + invalid,
            measure_option(builder, runner),
            callbacks=[keep],
            resume=self._pairs(task, known) or None,
            timeout_s=choice.seconds,
            finalists=0,
            fail_fast=None,
            objective=self._how.wanted.objective(self._how.result),
        )
        if not found and choice.seconds is not None:
            logger.warning(
                "no configuration was measured within time_limit=%g seconds, in which kernels are "
                "compiled too: give more", choice.seconds,
            )  # fmt: skip
        return found

    def _pairs(self, task: Task, known: Sequence[Trial]) -> list[Any]:
        trials = Trials("Kernel Tuner", task.name, task.args, None, self.space.values, known)
        return records_of(trials, name=task.name, args=task.args, target=self.target)

    def _observe(self, result: Result) -> None:
        """Add to a result what observers of the script say of a run."""
        if not self._observers or isinstance(result["time"], ErrorConfig):
            return
        params: Params = {name: result[name] for name in self.space.values}
        module = build(self.problem.kernel(params), target=self.target)
        values = self.problem.values(params)
        result.update(observed(self._observers, module, values, params, self._checker))

    def check(self, result: Result) -> None:
        """Mark a result as failed if what it computes is wrong."""
        checker = self._checker
        if not checker.looks or isinstance(result["time"], ErrorConfig):
            return
        params: Params = {name: result[name] for name in self.space.values}
        values = self.problem.values(params)
        problem = checker.problem(self.problem.kernel(params), self.target, values)
        if problem:
            result["time"] = RuntimeFailedConfig("RuntimeFailedConfig")
            result["error"] = f"wrong results: {problem}"
