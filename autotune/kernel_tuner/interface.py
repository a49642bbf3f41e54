"""`tune_kernel` and `run_kernel`, with Kernel Tuner's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.interchange import read_kernel_tuner
from autotune.kernel_tuner.cache import Cache
from autotune.kernel_tuner.cache import cache_path as path_of
from autotune.kernel_tuner.checking import Checker, Verify, outputs_of
from autotune.kernel_tuner.choice import Choice
from autotune.kernel_tuner.defines import checked_defines
from autotune.kernel_tuner.foreign_arrays import like
from autotune.kernel_tuner.kernels import Problem, check_arguments, code_of, language_of
from autotune.kernel_tuner.launch import Divisor, LaunchRule, plain_number
from autotune.kernel_tuner.measured import Measured, device_name
from autotune.kernel_tuner.objective import Wanted, wanted_of
from autotune.kernel_tuner.observers.nvml import NVMLObserver, check_parameters, observers_of
from autotune.kernel_tuner.observers.observer import BenchmarkObserver, OutputObserver
from autotune.kernel_tuner.renamed_arguments import takes_older_names
from autotune.kernel_tuner.results import (
    Metric,
    Result,
    add_metrics,
    check_metrics,
    failure_lines,
)
from autotune.kernel_tuner.run import KernelRun, Space, simulated
from autotune.kernel_tuner.util import ErrorConfig, get_best_config, get_config_string
from autotune.target import Target, device_class

Array = npt.NDArray[Any]


@takes_older_names
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

    The target is that of the enclosing ``with Target(...)`` if it takes such kernels, or else
    ``"cuda"`` or ``"c"``, as the source says. Results are compared with ``answer`` after all have
    been timed.

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
    space = Space.of(tune_params, restrictions)
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    rule = _rule(problem_size, divisors, block_size_names, smem_args)
    choice = Choice(strategy, strategy_options or {}, seed)
    shown = _Shown(named, objective, objective_higher_is_better, verbose, quiet)
    file = None
    if cache is not None:
        size = () if problem_size is None else rule.size(space.first)
        file = Cache(path_of(cache), kernel_name, size, space.values)
    if simulation_mode:
        results = simulated(space, choice, file)
        wanted = shown.wanted(observers, [name for each in results for name in each])
        about = {"target": "", "device_name": file.device if file else "", "simulation": True}
        return shown.finished(results, wanted, about)
    check_parameters(list(space.values))
    problem = _problem(
        kernel_name, kernel_source, arguments, rule, cmem_args, compiler_options, lang, defines
    )
    target = _target(problem)
    seen, own = observers_of(observers, target)
    wanted = shown.wanted(observers, later=choice.name in ("brute_force", "random_sample"))
    looking = any(isinstance(each, OutputObserver) for each in own)
    checker = Checker(answer, atol, verify, arguments, not looking, device)
    how = Measured(device, iterations, seen, wanted)
    run = KernelRun(problem, space, target, how, own, checker)
    if file is not None:
        file.device = device_class(target, device) or ""
    results = run.results(choice, file)
    for each in results:
        run.check(each)
    about = {"target": str(target), "device_name": device_name(target, device)}
    found = shown.finished(results, wanted, about)
    if file is not None:
        file.add(results)
        file.write()
    wanted.check(found[0])
    return found


@dataclass(frozen=True)
class _Shown:
    """What is computed of results, and printed.

    Attributes:
        metrics: added to results.
        objective, higher: what is best.
        verbose, quiet: whether each result is printed, or nothing.
    """

    metrics: Mapping[str, Metric]
    objective: str | None
    higher: bool | None
    verbose: bool
    quiet: bool

    def wanted(self, observers: object, held: Iterable[str] = (), later: bool = False) -> Wanted:
        """Return what is best, among items of results that observers or a cache bring."""
        listed = observers if isinstance(observers, list | tuple) else []
        seen = [each for each in listed if isinstance(each, NVMLObserver)]
        own = any(isinstance(each, BenchmarkObserver) for each in listed)
        return wanted_of(self.objective, self.higher, self.metrics, seen, held, own, later)

    def finished(
        self, results: Sequence[Result], wanted: Wanted, about: Mapping[str, Any]
    ) -> tuple[list[Result], dict[str, Any]]:
        """Add metrics to results, and return what `tune_kernel` does."""
        for each in results:
            add_metrics(each, self.metrics)
            if self.verbose and not self.quiet:
                print(get_config_string(each))
        best = get_best_config(results, wanted.name, wanted.higher)
        good = [each for each in results if not isinstance(each["time"], ErrorConfig)]
        failed = [each for each in results if isinstance(each["time"], ErrorConfig)]
        if not self.quiet:
            for line in failure_lines(failed):
                print(line)
            print(f"best of {len(good)} by {wanted.name}: {get_config_string(best)}")
        return good, {"best_config": best, "failed": failed, **about}


def tune_cache(
    cache_path: str | PathLike[str], restrictions: object = None, **options: Any
) -> tuple[list[Result], dict[str, Any]]:
    """Tune what a cache of Kernel Tuner holds, without a kernel: see ``simulation_mode``.

    Args:
        cache_path: the file.
        restrictions: of its configurations.
        options: other arguments of `tune_kernel`; what the cache says already is not looked at.

    Raises:
        TunerError: it has no results, or not the values of its parameters.
    """
    file = path_of(cache_path)
    held = read_kernel_tuner(file)
    space = {name: list(values) for name, values in held.knobs.items()}
    if not space or not all(space.values()):
        raise TunerError(f"tune_cache: {file} does not hold the values of its parameters")
    given: dict[str, Any] = {
        "kernel_name": held.name, "kernel_source": "", "problem_size": None, "arguments": [],
        "tune_params": space, "restrictions": restrictions, **options,
        "cache": file, "simulation_mode": True,
    }  # fmt: skip
    return tune_kernel(**given)


@takes_older_names
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
    del platform, compiler, quiet, log
    _refuse(texmem_args=texmem_args)
    divisors = (grid_div_x, grid_div_y, grid_div_z)
    problem, target = problem_of(
        kernel_name, kernel_source, problem_size, arguments, divisors, block_size_names,
        smem_args, cmem_args, compiler_options, lang, defines,
    )  # fmt: skip
    found = outputs_of(problem.kernel(params), target, problem.values(params), device)
    return [like(each, given) for each, given in zip(found, arguments, strict=False)]


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
    return LaunchRule(problem_size, divisors, tuple(names or ()), plain_number(shared))


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
    given = Target.current()
    own = Target(problem.language)
    return given if given is not None and given.language == own.language else own
