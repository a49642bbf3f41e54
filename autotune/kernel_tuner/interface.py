"""`tune_kernel` and `run_kernel`, with Kernel Tuner's arguments."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.driver import build
from autotune.errors import SpaceError, TunerError
from autotune.interchange import Trial, Trials, records_of
from autotune.kernel.source import SourceKernel
from autotune.kernel_tuner.cache import Cache, cache_path
from autotune.kernel_tuner.checking import Checker, Verify, outputs_of
from autotune.kernel_tuner.choice import Choice
from autotune.kernel_tuner.defines import checked_defines
from autotune.kernel_tuner.kernels import Problem, check_arguments, code_of, language_of
from autotune.kernel_tuner.launch import Divisor, LaunchRule, Params
from autotune.kernel_tuner.measured import Measured, device_name
from autotune.kernel_tuner.objective import wanted_of
from autotune.kernel_tuner.observers.nvml import check_parameters, observers_of
from autotune.kernel_tuner.observers.observer import BenchmarkObserver, OutputObserver, observed
from autotune.kernel_tuner.restrictions import filters_of
from autotune.kernel_tuner.results import (
    Metric,
    Result,
    add_metrics,
    cached_result,
    check_metrics,
)
from autotune.kernel_tuner.util import (
    ErrorConfig,
    RuntimeFailedConfig,
    get_best_config,
    get_config_string,
)
from autotune.measure import measure_option
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.target import Target
from autotune.task import TASK_TABLE, Task, create, get_config, template

logger = logging.getLogger("autotvm")

Array = npt.NDArray[Any]


def tune_kernel(
    kernel_name: str,
    kernel_source: object,
    problem_size: object,
    arguments: Sequence[object],
    tune_params: Mapping[str, Sequence[object]],
    grid_div_x: Divisor = None,
    grid_div_y: Divisor = None,
    grid_div_z: Divisor = None,
    restrictions: object = None,
    answer: object = None,
    atol: float = 1e-6,
    verify: Verify | None = None,
    verbose: bool = False,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Mapping[str, object] | None = None,
    cmem_args: Mapping[str, Array] | None = None,
    texmem_args: object = None,
    compiler: object = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, object] | None = None,
    log: object = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: object = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: str | PathLike[str] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    simulation_mode: bool | None = False,
    parallel: object = None,
    observers: object = None,
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
    objectives: object = None,
    seed: int | None = None,
) -> tuple[list[Result], dict[str, Any]]:
    """Tune a kernel, with Kernel Tuner's arguments.

    The target is that of the enclosing ``with Target(...)``, or else ``"cuda"`` or ``"c"``, as the
    source says. Results are compared with ``answer`` after all have been timed.

    Args:
        kernel_name, kernel_source, problem_size, arguments, tune_params: as in Kernel Tuner.
        grid_div_x, grid_div_y, grid_div_z: what extents are divided by, by default block sizes.
        restrictions: expressions, or functions of the parameters.
        answer, atol, verify: what is right.
        lang: CUDA or C.
        device: index of the device.
        smem_args, cmem_args: dynamic shared memory, and arrays in constant memory.
        compiler_options: flags.
        iterations: timed runs of a configuration.
        block_size_names: parameters that are the threads of a block.
        quiet: whether nothing is printed; with ``verbose`` each result is.
        strategy, strategy_options: how configurations are chosen; ``max_fevals``, ``time_limit``
            in seconds.
        cache: a cache file of Kernel Tuner: what it holds is not measured again.
        metrics: expressions or functions of a result, added to it.
        simulation_mode: whether the cache alone answers.
        observers: `NVMLObserver`, for energy and power, and each a `BenchmarkObserver`.
        objective, objective_higher_is_better: what is best: "time", an observable or a metric.
        seed: of the strategy.
        defines: what is defined in place of all parameters: texts with parameters, or functions.
        verbose, platform, compiler, log, parallel: accepted for scripts.
        texmem_args, objectives: not supported.

    Returns:
        The results of configurations that ran, each a dict of its parameters, ``time`` and
        ``times`` in milliseconds, resources and metrics; and a dict with ``best_config`` and
        ``failed``, the results of those that did not run.

    Raises:
        TunerError: an argument is of no use here; the message says what to do.
    """
    del platform, compiler, log, parallel
    _refuse(texmem_args=texmem_args, objectives=objectives)
    named = check_metrics(metrics)
    values = {str(name): list(each) for name, each in dict(tune_params).items()}
    check_parameters(list(values))
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    rule = _rule(problem_size, divisors, block_size_names, smem_args)
    problem = _problem(
        kernel_name, kernel_source, arguments, rule, cmem_args, compiler_options, lang, defines
    )
    seen, own = observers_of(observers, _target(problem))
    wanted = wanted_of(objective, objective_higher_is_better, named, seen)
    looking = any(isinstance(each, OutputObserver) for each in own)
    checker = Checker(answer, atol, verify, len(arguments), compares=not looking)
    choice = Choice(strategy, strategy_options or {}, seed)
    how = Measured(device, iterations, seen, wanted)
    run = KernelRun(problem, values, restrictions, _target(problem), how, own, checker)
    first = {name: each[0] for name, each in values.items()}
    file = None
    if cache is not None:
        file = Cache(cache_path(cache), kernel_name, rule.size(first), values)
    results = run.results(choice, file, bool(simulation_mode))
    for each in results:
        run.check(each)
        add_metrics(each, named)
        if verbose and not quiet:
            print(get_config_string(each))
    if file is not None and not simulation_mode:
        file.add(results)
        file.write()
    best = get_best_config(results, wanted.name, wanted.higher)
    if not quiet:
        print(f"best of {len(results)} by {wanted.name}: {get_config_string(best)}")
    good = [each for each in results if not isinstance(each["time"], ErrorConfig)]
    failed = [each for each in results if isinstance(each["time"], ErrorConfig)]
    about = {"best_config": best, "failed": failed, "target": str(run.target)}
    return good, {**about, "device_name": device_name(run.target, device)}


def run_kernel(
    kernel_name: str,
    kernel_source: object,
    problem_size: object,
    arguments: Sequence[object],
    params: Mapping[str, object],
    grid_div_x: Divisor = None,
    grid_div_y: Divisor = None,
    grid_div_z: Divisor = None,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Mapping[str, object] | None = None,
    cmem_args: Mapping[str, Array] | None = None,
    texmem_args: object = None,
    compiler: object = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, object] | None = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    log: object = None,
) -> list[Array]:
    """Run a kernel once, and return its arguments as they are then; those given do not change."""
    del device, platform, compiler, quiet, log
    _refuse(texmem_args=texmem_args)
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    problem, target = problem_of(
        kernel_name, kernel_source, problem_size, arguments, divisors, block_size_names,
        smem_args, cmem_args, compiler_options, lang, defines,
    )  # fmt: skip
    found = outputs_of(problem.kernel(params), target, problem.values(params))
    return found[: len(arguments)]


def problem_of(
    name: str,
    source: object,
    size: object,
    arguments: Sequence[object],
    divisors: tuple[Divisor, Divisor, Divisor],
    blocks: Sequence[str] | None,
    shared: Mapping[str, object] | None = None,
    constants: Mapping[str, Array] | None = None,
    flags: Sequence[str] | None = None,
    lang: str | None = None,
    defines: Mapping[str, object] | None = None,
) -> tuple[Problem, Target]:
    """Return the kernel of these arguments of `run_kernel`, and what it is to be built for."""
    rule = _rule(size, divisors, blocks, shared)
    problem = _problem(name, source, arguments, rule, constants, flags, lang, defines)
    return problem, _target(problem)


_INSTEAD = {
    "texmem_args": "pass the array as const, which is read through the same cache",
    "objectives": "choose one objective, and compare the metrics of the results; of a log, "
    "autotune.record.pareto_front gives the best in time and energy",
}


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise TunerError(f"{name} is not supported: leave it out; {_INSTEAD[name]}")


def _rule(
    problem_size: object,
    divisors: tuple[Divisor, Divisor, Divisor],
    names: Sequence[str] | None,
    smem_args: Mapping[str, object] | None,
) -> LaunchRule:
    shared: Any = (smem_args or {}).get("size", 0)
    return LaunchRule(problem_size, divisors, tuple(names or ()), _term(shared))


def _term(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _problem(
    name: str,
    source: object,
    arguments: Sequence[object],
    rule: LaunchRule,
    constants: Mapping[str, Array] | None,
    flags: Sequence[str] | None,
    lang: str | None,
    defines: Mapping[str, object] | None,
) -> Problem:
    code = code_of(source)
    held = {n: np.ascontiguousarray(each) for n, each in (constants or {}).items()}
    return Problem(
        name, code, rule, check_arguments(arguments), held, list(flags or ()),
        language_of(lang, code), checked_defines(defines),
    )  # fmt: skip


def _target(problem: Problem) -> Target:
    return Target.current() or Target(problem.language)


@dataclass(frozen=True)
class _Held:
    """A value of a cache as a configuration of a template holds it."""

    val: object


class KernelRun:
    """The configurations of one kernel and what they take."""

    def __init__(
        self,
        problem: Problem,
        values: Mapping[str, Sequence[object]],
        restrictions: object,
        target: Target,
        how: Measured,
        observers: Sequence[BenchmarkObserver],
        checker: Checker,
    ) -> None:
        for name, each in values.items():
            if not each:
                raise SpaceError(f"tune_params: {name!r} has no values")
        self.problem, self.values, self.target = problem, values, target
        self._restrictions = filters_of(restrictions, tuple(values))
        self._how = how
        self._observers = observers
        self._checker = checker

    def results(self, choice: Choice, cache: Cache | None, simulated: bool) -> list[Result]:
        """Return what configurations take, those of the cache first."""
        known = [] if cache is None else cache.read()
        known = [each for each in known if self._allowed(each.choices)]
        if simulated:
            if not known:
                where = "no cache" if cache is None else f"cache {cache.path}"
                raise TunerError(f"simulation_mode: {where} has no results of these parameters")
            return self._simulated(choice, known)
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

    def _allowed(self, choices: Mapping[str, object]) -> bool:
        """Return whether these values are among those that are tuned, and no restriction's."""
        if any(choices[name] not in values for name, values in self.values.items()):
            return False
        held = {name: _Held(value) for name, value in choices.items()}
        return all(bool(restriction(held)) for restriction in self._restrictions)

    def _simulated(self, choice: Choice, known: Sequence[Trial]) -> list[Result]:
        order = np.random.default_rng(choice.seed).permutation(len(known))
        few = choice.trials(len(known))
        chosen = range(len(known)) if few == len(known) else sorted(order[:few])
        return [cached_result(known[i]) for i in chosen]

    def _task(self) -> Task:
        """Register a template of the kernel, and return its task."""
        name = f"kernel_tuner/{self.problem.name}"
        TASK_TABLE.pop(name, None)

        @template(name)
        def tuned(*size: int) -> SourceKernel:
            del size
            cfg = get_config()
            for each, values in self.values.items():
                cfg.define_knob(each, [_term(value) for value in values])
            for restriction in self._restrictions:
                cfg.multi_filter(restriction)
            return self.problem.kernel({each: cfg[each].val for each in self.values})

        size = self.problem.rule.size({n: _term(each[0]) for n, each in self.values.items()})
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
        choice.tuner(task).tune(
            choice.trials(task.config_space.valid_count),
            measure_option("local", runner),
            callbacks=[keep],
            resume=self._pairs(task, known) or None,
            timeout_s=choice.options.get("time_limit"),
            finalists=0,
            fail_fast=None,
            objective=self._how.wanted.objective(self._how.result),
        )
        return found

    def _pairs(self, task: Task, known: Sequence[Trial]) -> list[Any]:
        trials = Trials("Kernel Tuner", task.name, task.args, None, self.values, known)
        return records_of(trials, name=task.name, args=task.args, target=self.target)

    def _observe(self, result: Result) -> None:
        """Add to a result what observers of the script say of a run."""
        if not self._observers or isinstance(result["time"], ErrorConfig):
            return
        params: Params = {name: result[name] for name in self.values}
        module = build(self.problem.kernel(params), target=self.target)
        values = self.problem.values(params)
        result.update(observed(self._observers, module, values, params, self._checker.answer))

    def check(self, result: Result) -> None:
        """Mark a result as failed if what it computes is wrong."""
        checker = self._checker
        if not checker.looks or isinstance(result["time"], ErrorConfig):
            return
        params: Params = {name: result[name] for name in self.values}
        values = self.problem.values(params)
        problem = checker.problem(self.problem.kernel(params), self.target, values)
        if problem:
            result["time"] = RuntimeFailedConfig("RuntimeFailedConfig")
            result["error"] = f"wrong results: {problem}"
