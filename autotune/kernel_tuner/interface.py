"""`tune_kernel` and `run_kernel`, with Kernel Tuner's arguments."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError, TunerError
from autotune.interchange import Trial, Trials, records_of
from autotune.kernel.source import SourceKernel
from autotune.kernel_tuner.cache import Cache, cache_path
from autotune.kernel_tuner.checking import Checker, Verify, outputs_of
from autotune.kernel_tuner.kernels import Problem, check_arguments, code_of, language_of
from autotune.kernel_tuner.launch import Divisor, LaunchRule, Params
from autotune.kernel_tuner.restrictions import filters_of
from autotune.kernel_tuner.results import (
    Metric,
    Result,
    add_metrics,
    cached_result,
    check_metrics,
    result_of,
)
from autotune.kernel_tuner.util import (
    ErrorConfig,
    RuntimeFailedConfig,
    get_best_config,
    get_config_string,
)
from autotune.measure import LocalRunner, measure_option
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.target import Target
from autotune.task import TASK_TABLE, Task, create, get_config, template
from autotune.tuner import GATuner, GridSearchTuner, RandomTuner, SimulatedAnnealingTuner, Tuner
from autotune.utils.check import shown

logger = logging.getLogger("autotvm")

Array = npt.NDArray[Any]

# Seconds a run may take.
_TIMEOUT_S = 60.0
# Kernel Tuner's strategies that have a counterpart; `AutoTuner` takes the place of the others.
_TUNERS: Mapping[str, type[Tuner]] = {
    "brute_force": GridSearchTuner,
    "genetic_algorithm": GATuner,
    "random_sample": RandomTuner,
    "simulated_annealing": SimulatedAnnealingTuner,
}
_OTHERS = (
    "basinhopping", "bayes_opt", "bayes_opt_BOTorch", "bayes_opt_old", "diff_evo",
    "dual_annealing", "firefly_algorithm", "greedy_ils", "greedy_mls", "minimize", "mls",
    "ordered_greedy_mls", "pso", "pyatf_strategies", "skopt",
)  # fmt: skip


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
    defines: object = None,
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
        objective, objective_higher_is_better: what is best: "time" or a metric.
        seed: of the strategy.
        verbose, platform, compiler, log, parallel: accepted for scripts.
        texmem_args, defines, observers, objectives: not supported.

    Returns:
        The results of configurations that ran, each a dict of its parameters, ``time`` and
        ``times`` in milliseconds, resources and metrics; and a dict with ``best_config`` and
        ``failed``, the results of those that did not run.

    Raises:
        TunerError: an argument is of no use here; the message says what to do.
    """
    del platform, compiler, log, parallel
    _refuse(texmem_args=texmem_args, defines=defines, observers=observers, objectives=objectives)
    values = {str(name): list(each) for name, each in dict(tune_params).items()}
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    rule = _rule(problem_size, divisors, block_size_names, smem_args)
    problem = _problem(
        kernel_name, kernel_source, arguments, rule, cmem_args, compiler_options, lang
    )
    checker = Checker(answer, atol, verify, len(arguments))
    choice = Choice(strategy, strategy_options or {}, seed)
    run = KernelRun(problem, values, restrictions, _target(problem), device, iterations)
    named = check_metrics(metrics)
    wanted = objective or "time"
    if wanted != "time" and wanted not in named:
        known = ", ".join(["time", *named])
        raise TunerError(f"objective: expected one of {known}, got {shown(wanted)}")
    first = {name: each[0] for name, each in values.items()}
    file = None
    if cache is not None:
        file = Cache(cache_path(cache), kernel_name, rule.size(first), values)
    results = run.results(choice, file, bool(simulation_mode))
    for each in results:
        run.check(each, checker)
        add_metrics(each, named)
        if verbose and not quiet:
            print(get_config_string(each))
    if file is not None and not simulation_mode:
        file.add(results)
        file.write()
    best = get_best_config(results, wanted, bool(objective_higher_is_better))
    if not quiet:
        print(f"best of {len(results)} by {wanted}: {get_config_string(best)}")
    good = [each for each in results if not isinstance(each["time"], ErrorConfig)]
    failed = [each for each in results if isinstance(each["time"], ErrorConfig)]
    about = {"best_config": best, "failed": failed, "target": str(run.target)}
    return good, about


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
    defines: object = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    log: object = None,
) -> list[Array]:
    """Run a kernel once, and return its arguments as they are then; those given do not change."""
    del device, platform, compiler, quiet, log
    _refuse(texmem_args=texmem_args, defines=defines)
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    rule = _rule(problem_size, divisors, block_size_names, smem_args)
    problem = _problem(
        kernel_name, kernel_source, arguments, rule, cmem_args, compiler_options, lang
    )
    found = outputs_of(problem.kernel(params), _target(problem), problem.values())
    return found[: len(arguments)]


_INSTEAD = {
    "texmem_args": "pass the array as const, which is read through the same cache",
    "defines": "all parameters are defined",
    "observers": "registers and shared memory are in each result, power and energy are not "
    "measured",
    "objectives": "choose one objective, and compare the metrics of the results",
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
    rule = LaunchRule(problem_size, divisors, tuple(names or ()), _term(shared))
    return rule


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
) -> Problem:
    code = code_of(source)
    held = {n: np.ascontiguousarray(each) for n, each in (constants or {}).items()}
    return Problem(
        name, code, rule, check_arguments(arguments), held, list(flags or ()),
        language_of(lang, code),
    )  # fmt: skip


def _target(problem: Problem) -> Target:
    return Target.current() or Target(problem.language)


@dataclass(frozen=True)
class Choice:
    """How configurations are chosen.

    Attributes:
        strategy: name of one of Kernel Tuner's; None for all configurations.
        options: of it.
        seed: of random choices.
    """

    strategy: object
    options: Mapping[str, Any]
    seed: int | None

    def tuner(self, task: Task) -> Tuner:
        """Make the tuner.

        Raises:
            TunerError: there is no such strategy.
        """
        name = "brute_force" if self.strategy is None else self.strategy
        if self.strategy is None and "max_fevals" in self.options:
            name = "random_sample"
        if not isinstance(name, str) or name not in (*_TUNERS, *_OTHERS):
            raise TunerError(
                f"strategy: expected one of {', '.join([*_TUNERS, *_OTHERS])}, got {shown(name)}"
            )
        if name in _TUNERS:
            return _TUNERS[name](task, seed=self.seed)
        from autotune.tuner import AutoTuner

        logger.info("strategy %r is not here: AutoTuner takes its place", name)
        return AutoTuner(task, seed=self.seed)

    def trials(self, count: int) -> int:
        """Return how many configurations are tried of so many.

        Raises:
            TunerError: ``max_fevals`` is no number of them.
        """
        most = self.options.get("max_fevals")
        if most is None:
            return count
        if not isinstance(most, Integral) or most < 1:
            raise TunerError(
                "strategy_options: expected max_fevals to be a whole number from 1 on, got "
                f"{shown(most)}"
            )
        return min(int(most), count)


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
        device: int,
        iterations: int,
    ) -> None:
        for name, each in values.items():
            if not each:
                raise SpaceError(f"tune_params: {name!r} has no values")
        self.problem, self.values, self.target = problem, values, target
        self._restrictions = filters_of(restrictions, tuple(values))
        self._device, self._iterations = device, iterations

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
            return [*map(cached_result, known), *self._measured(task, choice, known, cache)]
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
            new = [result_of(i, r) for i, r in zip(inputs, results, strict=True)]
            found.extend(new)
            if cache is not None:
                cache.add(new)

        runner = LocalRunner(
            timeout=_TIMEOUT_S,
            number=1,
            repeat=self._iterations,
            device=self._device,
            verify=False,
            ref_input=self.problem.values(),
        )
        choice.tuner(task).tune(
            choice.trials(task.config_space.valid_count),
            measure_option("local", runner),
            callbacks=[keep],
            resume=self._pairs(task, known) or None,
            timeout_s=choice.options.get("time_limit"),
            finalists=0,
            fail_fast=None,
        )
        return found

    def _pairs(self, task: Task, known: Sequence[Trial]) -> list[Any]:
        trials = Trials("Kernel Tuner", task.name, task.args, None, self.values, known)
        return records_of(trials, name=task.name, args=task.args, target=self.target)

    def check(self, result: Result, checker: Checker) -> None:
        """Mark a result as failed if what it computes is wrong."""
        if not checker.looks or isinstance(result["time"], ErrorConfig):
            return
        params: Params = {name: result[name] for name in self.values}
        problem = checker.problem(self.problem.kernel(params), self.target, self.problem.values())
        if problem:
            result["time"] = RuntimeFailedConfig("RuntimeFailedConfig")
            result["error"] = f"wrong results: {problem}"
