"""Compiling a network: a kernel for each function, all at once, and the program of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from autotune.auto_scheduler import fallback_schedule
from autotune.driver import as_built, kernel_of
from autotune.errors import AutotuneError, GraphError
from autotune.graph import Graph, Node, check_computable, raise_all, verify
from autotune.graph.fuse import FusedFunction
from autotune.graph.passes import (
    OWN,
    PassPipeline,
    channels_first,
    channels_last,
    compose,
    eliminate_common,
    fold_constant,
    fold_scale_backward,
    integer_layers,
    joined_residuals,
    merge_products,
    reshapes_last,
    slices_first,
)
from autotune.kernel import Kernel
from autotune.network.choice import ByRule, Chooser, by_rule, choose_untuned
from autotune.network.compiled import CompiledNetwork
from autotune.network.early_compilation import EarlyModules
from autotune.network.frozen import Pins
from autotune.network.implementations import serving
from autotune.network.plan import ExecutionPlan, fit_plan, plan_network
from autotune.network.shared_kernels import SharedKernels
from autotune.network.units import Unit
from autotune.runtime.arrays.memory import get_ready
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.device import device
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.utils import environment
from autotune.utils.check import Check
from autotune.utils.pools import abandonable_pool
from autotune.utils.scratch import temporary_folder
from autotune.workload import Candidate, GraphWorkload, ScheduleSteps, Workload

_TIMEOUT_S = 600.0
# The level from which on arithmetic becomes norms and attention.
_COMPOSES = 3
# Called with how many of how many kernels are compiled.
Progress = Callable[[int, int], None]


def fallback_kernel(function: FusedFunction, target: Target) -> Kernel:
    """Return a kernel for a function without any tuning."""
    return kernel_of(fallback_schedule(function.tensors(), target), target, function.name)


def compile_network(
    graph: Graph,
    target: Target | str,
    pipeline: PassPipeline = OWN,
    opt_level: int = 3,
    kernel_for: Callable[[FusedFunction, Target], Kernel] | None = None,
    progress: Progress | None = None,
    jobs: int | None = None,
    choose: Chooser | None = None,
    branches: bool = False,
    over: Mapping[int, int] | None = None,
    shared: SharedKernels | None = None,
) -> CompiledNetwork:
    """Compile a graph whose parameters are bound.

    Args:
        graph: the network.
        target: what for.
        pipeline: the passes.
        opt_level: of passes and fusion; 0 leaves each operator by itself.
        kernel_for: makes the kernels of functions that are computed by rule; by default, of all
            that templates do not compute, `fallback_kernel`. Where it is given, of all functions.
        progress: called after each kernel.
        jobs: compilers at work at once; by default one a core.
        choose: says how each function is computed; by default `choose_untuned`.
        branches: whether on a GPU kernels run side by side that do not depend on one another.
        over: outputs that may be in the memory of an input of their type, by their numbers: a row
            that is written to a cache is then all that its kernel stores. Such an output is the
            array that is bound to the input.
        shared: kernels of networks that were compiled before by the same ``choose`` and
            ``kernel_for``, which are taken and added to.

    A GPU that is there is opened meanwhile, so that the first run need not wait for that.

    In frozen mode every function is computed as the lock says; ``choose`` and ``kernel_for`` are
    not asked.

    Raises:
        GraphError: the graph is ill-formed, holds what has no kernel, or functions failed to
            compile; all of them are listed.
        FrozenError: in frozen mode, functions are not locked, or are other kernels now.
    """
    check = Check(GraphError, "compile_network")
    check.kind("graph", graph, Graph, "a graph (of an imported model: model.graph)")
    check.function("pipeline", pipeline)
    check.whole("opt_level", opt_level, least=0)
    if kernel_for is not None:
        check.function("kernel_for", kernel_for)
    if choose is not None:
        check.function("choose", choose)
    if progress is not None:
        check.function("progress", progress)
    if jobs is not None:
        check.whole("jobs", jobs, least=1)
    _check_over(graph, over or {})
    chosen = target if isinstance(target, Target) else Target(target)
    how = choose or (choose_untuned if kernel_for is None else by_rule)
    get_ready(device(chosen))
    common = shared or SharedKernels()
    simpler = simplify_graph(graph, chosen, pipeline, opt_level, common.serving(chosen))
    if environment.frozen():
        return _frozen(simpler, opt_level, chosen, progress, jobs, bool(branches), over)
    named = kernel_for or fallback_kernel
    make = common.making(partial(_module, target=chosen, kernel_for=named, known={}), chosen)
    with EarlyModules(make, jobs or os.cpu_count() or 1) as early:
        choosing = early.watching(common.remembering(how))
        plan = plan_network(simpler, opt_level, chosen, choosing, bool(branches), over)
        network = compile_plan(plan, chosen, named, progress, jobs, early, common)
    return replace(network, branches=bool(branches))


def _check_over(graph: Graph, over: Mapping[int, int]) -> None:
    """Refuse outputs in the memory of inputs that do not fit them, or are those of two."""
    types = [[each.type for each in values] for values in (graph.outputs, graph.inputs)]
    for output, given in over.items():
        fits = output in range(len(types[0])) and given in range(len(types[1]))
        if not fits or types[0][output] != types[1][given]:
            Check(GraphError, "compile_network").refuse(
                "over", "numbers of outputs, each with that of an input of its type",
                f"{output}: {given}",
            )  # fmt: skip
    if len(set(over.values())) < len(over):
        Check(GraphError, "compile_network").refuse("over", "an input for each output", dict(over))


def _frozen(
    graph: Graph,
    opt_level: int,
    target: Target,
    progress: Progress | None,
    jobs: int | None,
    branches: bool,
    over: Mapping[int, int] | None,
) -> CompiledNetwork:
    """Return a network as the lock says."""
    pins = Pins(target)
    plan = plan_network(graph, opt_level, target, pins.choose, branches, over)
    pins.check_plan(plan)
    network = compile_plan(plan, target, progress=progress, jobs=jobs)
    pins.check_built(plan, network.modules)
    return replace(network, branches=branches)


def simplify_graph(
    graph: Graph,
    target: Target,
    pipeline: PassPipeline = OWN,
    opt_level: int = 3,
    served: Callable[[Node], bool] | None = None,
) -> Graph:
    """Return a graph after its passes.

    Norms and attention that are written as arithmetic become operators, and images of 16-bit
    floats get their channels last, where templates of the target compute these, if the passes are
    our own. ``served`` says which nodes these compute, by default `serving`.

    Raises:
        GraphError: it is ill-formed, or holds what has no kernel.
    """
    verify(graph)
    simpler = pipeline(graph, opt_level)
    if opt_level >= _COMPOSES and isinstance(pipeline, PassPipeline) and pipeline.composes:
        served = served or serving(target)
        simpler = integer_layers(simpler, served)
        if not target.backend.on_gpu:  # which has no kernels of NHWC images
            simpler = channels_first(simpler, served)
        simpler = joined_residuals(channels_last(simpler, served), served)
        simpler = compose(slices_first(simpler), served)
        simpler = merge_products(simpler) if target.backend.on_gpu else simpler
        # Where a transpose was between a product and a scale, these meet only now.
        simpler = fold_constant(fold_scale_backward(reshapes_last(simpler)))
        simpler = eliminate_common(simpler)
    check_computable(simpler)
    return simpler


def compile_plan(
    plan: ExecutionPlan,
    target: Target,
    kernel_for: Callable[[FusedFunction, Target], Kernel] = fallback_kernel,
    progress: Progress | None = None,
    jobs: int | None = None,
    known: Mapping[str, Module] | None = None,
    shared: SharedKernels | None = None,
) -> CompiledNetwork:
    """Compile the kernels of a plan.

    Args:
        plan: what runs where.
        target: what for.
        kernel_for: makes the kernels of functions that are computed by rule.
        progress: called after each kernel.
        jobs: compilers at work at once; by default one a core.
        known: modules that were compiled before, by `Unit.key`.
        shared: those of other networks, as in `compile_network`.

    Raises:
        GraphError: functions failed to compile; all of them are listed.
    """
    alone = partial(_module, target=target, kernel_for=kernel_for, known=known or {})
    make = alone if shared is None else shared.making(alone, target)
    modules = _compile(plan.kernels, make, progress, jobs or os.cpu_count() or 1)
    plan = fit_plan(plan, [module.kernel for module in modules])
    return CompiledNetwork(plan, tuple(modules), target)


def _compile(
    units: Sequence[Unit],
    make: Callable[[Unit], Module],
    progress: Progress | None,
    jobs: int,
) -> list[Module]:
    """Compile all functions side by side; tell all that failed at once."""
    modules: list[Module] = []
    failed: list[str] = []
    with abandonable_pool(jobs, "autotune-network") as pool:
        futures = [pool.submit(make, unit) for unit in units]
        for done, (unit, future) in enumerate(zip(units, futures, strict=True), 1):
            function = unit.function
            try:
                modules.append(future.result())
            except AutotuneError as error:
                places = ", ".join(dict.fromkeys(n.origin for n in function.graph.nodes))
                failed.append(f"{places}: {function.name}: {error}")
            if progress is not None:
                progress(done, len(units))
    raise_all(failed, "these functions of the network cannot be compiled")
    return modules


def _module(
    unit: Unit,
    target: Target,
    kernel_for: Callable[[FusedFunction, Target], Kernel],
    known: Mapping[str, Module],
) -> Module:
    with suppress(KeyError):
        return known[unit.key]
    named = kernel_of_unit(unit, target, kernel_for)
    with temporary_folder("network") as folder:
        output = compile_kernel(named, target, timeout_s=_TIMEOUT_S, out_dir=folder)
        artifact = Path(output.artifact)
        return Module(named, target, artifact.read_bytes(), artifact.suffix, output.resources)


def kernel_of_unit(
    unit: Unit, target: Target, kernel_for: Callable[[FusedFunction, Target], Kernel]
) -> Kernel:
    """Return the kernel of a unit, under the name of its function, that may be launched early."""
    choice = unit.choice
    if isinstance(choice, ByRule):
        made = kernel_for(unit.function, target)
    else:
        made = kernel_of(choice.realise().what, target, unit.function.name)
    named = replace(made, name=unit.function.name)
    return as_built(named, target)


def workload_of_unit(unit: Unit, target: Target) -> tuple[Workload, Candidate]:
    """Return what a unit computes and how, as trials take it."""
    choice = unit.choice
    if not isinstance(choice, ByRule):
        return choice.workload, choice.candidate
    tensors = unit.function.tensors()
    schedule, _ = fallback_schedule(tensors, target)
    steps = ScheduleSteps(tuple(schedule.steps))
    return GraphWorkload(tensors, target, unit.function.name), steps
