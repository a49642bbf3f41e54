"""Whole networks against PyTorch: whether they are right, and how long they take.

    python -m benchmarks.networks                            # right? all of them, untuned
    python -m benchmarks.networks --time resnet-18           # and timed
    python -m benchmarks.networks --time resnet-18 --tune 300 --log r18.log
    python -m benchmarks.networks --check --target cuda --time resnet-18 --tune 180 --log r18.log

Parameters are drawn so that folding shows: scales of both signs, means and shifts that are not 0.
Errors are norms of differences to PyTorch in float64. On a CPU times are CPU time of the process
and, in turns with PyTorch, wall time; both use all cores. PyTorch's are eager, traced and frozen,
and compiled, which needs a C++ compiler, each in both layouts. On a GPU they are times of CUDA
graphs in turns: ours, and PyTorch's of the network as it is, after our passes (norms folded),
and traced and frozen, in NCHW and channels_last, with cuDNN's choice by measuring all that it
offers, in strict float32 or in 16-bit floats (`--dtype float16`). PyTorch must be installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from autotune.graph import Graph
from autotune.network import (
    CompiledNetwork,
    History,
    NetworkInstance,
    compile_network,
    report,
    tune_network,
)
from autotune.network.choice import by_rule
from autotune.target import Target
from autotune.tvm.relay import testing
from benchmarks.networks.torch_graph import TorchGraph
from benchmarks.networks.torch_inductor import compiled
from benchmarks.networks.torch_rivals import first_of, frozen, input_of, rivals_on_gpu
from benchmarks.rivals import set_up
from benchmarks.turns import alone, in_turns, in_words, torch_sampler

NETWORKS: dict[str, Callable[..., Any]] = {
    "resnet-18": partial(testing.resnet.get_workload, num_layers=18),
    "resnet-50": partial(testing.resnet.get_workload, num_layers=50),
    "mobilenet": testing.mobilenet.get_workload,
    "squeezenet_v1.1": partial(testing.squeezenet.get_workload, version="1.1"),
    "inception_v3": testing.inception_v3.get_workload,
    "vgg-16": partial(testing.vgg.get_workload, num_layers=16),
}


def bound(name: str, seed: int = 0, batch: int = 1, dtype: str = "float32") -> Graph:
    """Return a network with drawn parameters."""
    module, params = NETWORKS[name](batch, dtype=dtype)
    rng = np.random.default_rng(seed)
    drawn = {}
    for key, value in params.items():
        array = value.numpy()
        if key.endswith("var"):
            array = rng.uniform(0.5, 2, array.shape)
        elif key.endswith("gamma"):
            array = rng.uniform(0.5, 1.5, array.shape) * rng.choice([-1, 1], array.shape)
        elif key.endswith(("beta", "mean", "bias")):
            array = rng.normal(0, 0.2, array.shape)
        drawn[key] = array.astype(dtype)
    graph: Graph = module["main"].graph.bind(drawn)
    return graph


def exact_of(graph: Graph, torch: Any) -> np.ndarray[Any, Any]:
    """Return what PyTorch computes in float64."""
    exact = TorchGraph(graph, torch, torch.float64)
    with torch.no_grad():
        found: np.ndarray[Any, Any] = exact(exact.tensor(input_of(graph)))[0].numpy()
    return found


def error_of(instance: NetworkInstance, data: np.ndarray[Any, Any], want: Any) -> float:
    """Run a network; return how far it is from what is wanted, in the 2-norm."""
    (got,) = instance(data)
    return float(np.linalg.norm(got.numpy() - want) / np.linalg.norm(want))


def check(name: str, torch: Any, target: Target) -> None:
    """Print how far an untuned network is from PyTorch in float64."""
    graph = bound(name)
    begun = time.monotonic()
    instance = compile_network(graph, target).instance()
    instance(input_of(graph))
    first_s = time.monotonic() - begun
    error = error_of(instance, input_of(graph), exact_of(graph, torch))
    print(f"{name:16} error {error:.1e}, first output after {first_s:.1f} s", flush=True)


def networks_of(
    graph: Graph, target: Target, tune_s: float, log: str, rules: bool
) -> dict[str, CompiledNetwork]:
    """Return the network compiled in several ways, by their names."""
    found = {}
    if rules:
        found["by rule"] = compile_network(graph, target, choose=by_rule)
    begun = time.monotonic()
    found["untuned"] = compile_network(graph, target)
    print(f"untuned: compiled in {time.monotonic() - begun:.1f} s", flush=True)
    if tune_s:
        begun = time.monotonic()
        found["tuned"] = tune_network(graph, None, target, budget_s=tune_s, log=log)
        print(f"tuned: {time.monotonic() - begun:.1f} s with its race", flush=True)
    elif log:
        found["tuned"] = compile_network(
            graph,
            target,
            History(log).pipeline(graph, target),
            choose=History(log).choose,
            branches=History(log).branches(graph, target),
        )
    return found


def timed(name: str, torch: Any, target: Target, options: argparse.Namespace) -> None:
    """Print the times of a network, untuned, tuned and by PyTorch, in turns."""
    graph = bound(name, batch=options.batch, dtype=options.dtype)
    data, want = input_of(graph), exact_of(graph, torch)
    instances = {}
    log = options.log.replace("{}", name)
    for key, network in networks_of(graph, target, options.tune, log, options.rules).items():
        instances[key] = network.instance()
        error = error_of(instances[key], data, want)
        print(f"\n{name}, {key}: error {error:.1e}")
        if options.report:
            print(f"{report(instances[key], floors=target.backend.on_gpu)}\n", flush=True)
    head = f"{name} batch {options.batch} {options.dtype}"
    with torch.no_grad(), alone(options.lock):
        if target.backend.on_gpu:
            _time_on_gpu(head, graph, instances, torch, options.rounds)
        else:
            _time_on_cpu(head, graph, instances, torch, options.rounds)


def _time_on_cpu(
    head: str, graph: Graph, instances: dict[str, NetworkInstance], torch: Any, rounds: int
) -> None:
    runs: dict[str, Callable[[], object]] = {key: one.run for key, one in instances.items()}
    for last in (False, True):
        peer = TorchGraph(graph, torch, torch.float32, channels_last=last)
        tensor, layout = peer.tensor(input_of(graph)), "channels_last" if last else "NCHW"
        runs[f"torch, {layout}"] = partial(peer, tensor)
        runs[f"torch, {layout}, frozen"] = partial(frozen(peer, tensor, torch), tensor)
        first = partial(first_of, peer)
        runs[f"torch, {layout}, compiled"] = compiled(torch, first, tensor)
    wall: dict[str, list[float]] = {key: [] for key in runs}
    cpu: dict[str, list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            run()
            begun, spent = time.perf_counter(), time.process_time()
            run()
            cpu[key].append(time.process_time() - spent)
            wall[key].append(time.perf_counter() - begun)
    for key in runs:
        print(
            f"{head} {key:26} wall {statistics.median(wall[key]) * 1e3:8.2f} ms (least "
            f"{min(wall[key]) * 1e3:.2f}), CPU {statistics.median(cpu[key]) * 1e3:8.2f} ms"
        )


# Runs in one sample on a GPU.
_RUNS = 20


def _time_on_gpu(
    head: str, graph: Graph, instances: dict[str, NetworkInstance], torch: Any, rounds: int
) -> None:
    samples: dict[str, Callable[[], float]] = {}
    for key, instance in instances.items():
        has = instance.network.branches
        other = replace(instance.network, branches=not has).instance()
        names = f"{key} (branches {has})", f"{key} (branches {not has})"
        for name, one in zip(names, (instance, other), strict=True):
            sampler = one.program.sampler()
            samples[name] = lambda s=sampler: s.sample(_RUNS) / _RUNS  # type: ignore[misc]
    set_up(torch)
    for name, run in rivals_on_gpu(graph, torch, graph.inputs[0].dtype):
        begun = time.monotonic()
        try:
            samples[f"CUDA graph of torch, {name}"] = torch_sampler(torch, run, _RUNS)
        except RuntimeError as error:
            print(f"torch, {name}: {error}", flush=True)
        print(f"torch, {name}: ready in {time.monotonic() - begun:.1f} s", flush=True)
    for key, taken in in_turns(samples, rounds).items():
        print(f"{head} {key:56} {in_words(taken)}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", nargs="*", choices=[*NETWORKS], help="networks; all by default")
    parser.add_argument("--time", nargs="*", choices=[*NETWORKS], default=[])
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--batch", type=int, default=1, help="of what is timed")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--tune", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--log", default="", help="of tuning; {} in it becomes the network's name")
    parser.add_argument("--rules", action="store_true", help="also without any templates")
    parser.add_argument("--report", action="store_true", help="show the kernels")
    parser.add_argument("--lock", help="a file; who holds it is timed, others wait")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    import torch

    target = Target(options.target)
    if options.check is not None or not options.time:
        for name in options.check or NETWORKS:
            check(name, torch, target)
    for name in options.time:
        timed(name, torch, target, options)


if __name__ == "__main__":
    main()
