"""Whole networks on a CPU against PyTorch: whether they are right, and how long they take.

    python -m benchmarks.networks                            # right? all of them, untuned
    python -m benchmarks.networks --time resnet-18           # and timed
    python -m benchmarks.networks --time resnet-18 --tune 300 --log r18.log

Parameters are drawn so that folding shows: scales of both signs, means and shifts that are not 0.
Errors are norms of differences to PyTorch in float64. Times are CPU time of the process and, in
turns with PyTorch eager in float32, wall time; both use all cores. PyTorch must be installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.graph import Graph
from autotune.network import History, compile_network, report, tune_network
from autotune.tvm.relay import testing
from benchmarks.torch_graph import TorchGraph

NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet-18": lambda: testing.resnet.get_workload(num_layers=18),
    "resnet-50": lambda: testing.resnet.get_workload(num_layers=50),
    "mobilenet": lambda: testing.mobilenet.get_workload(),
    "squeezenet_v1.1": lambda: testing.squeezenet.get_workload(version="1.1"),
    "inception_v3": lambda: testing.inception_v3.get_workload(),
    "vgg-16": lambda: testing.vgg.get_workload(1, num_layers=16),
}


def bound(name: str, seed: int = 0) -> Graph:
    """Return a network with drawn parameters."""
    module, params = NETWORKS[name]()
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
        drawn[key] = array.astype("float32")
    graph: Graph = module["main"].graph.bind(drawn)
    return graph


def check(name: str, torch: Any) -> None:
    """Print how far an untuned network is from PyTorch in float64."""
    graph = bound(name)
    data = np.random.default_rng(1).normal(size=graph.inputs[0].shape).astype("float32")
    begun = time.monotonic()
    instance = compile_network(graph, "llvm").instance()
    (got,) = instance(data)
    first_s = time.monotonic() - begun
    exact = TorchGraph(graph, torch, torch.float64)
    with torch.no_grad():
        want = exact(exact.tensor(data))[0].numpy()
    error = np.linalg.norm(got.numpy() - want) / np.linalg.norm(want)
    print(f"{name:16} error {error:.1e}, first output after {first_s:.1f} s", flush=True)


def timed(name: str, torch: Any, tune_s: float, log: str, rounds: int) -> None:
    """Print the times of a network, untuned, tuned and by PyTorch, in turns."""
    graph = bound(name)
    data = np.random.default_rng(1).normal(size=graph.inputs[0].shape).astype("float32")
    networks = {"untuned": compile_network(graph, "llvm")}
    if tune_s:
        networks["tuned"] = tune_network(graph, None, "llvm", budget_s=tune_s, log=log)
    elif log:
        networks["tuned"] = compile_network(graph, "llvm", choose=History(log).choose)
    runs: dict[str, Callable[[], object]] = {}
    for key, network in networks.items():
        instance = network.instance()
        instance(data)
        runs[key] = instance.run
        print(f"\n{name}, {key}\n{report(instance, floors=False)}\n", flush=True)
    peer = TorchGraph(graph, torch, torch.float32)
    tensor = peer.tensor(data)
    runs["torch"] = lambda: peer(tensor)
    frozen = _optimised(peer, tensor, torch)
    runs["torch, traced and frozen"] = lambda: frozen(tensor)
    wall: dict[str, list[float]] = {key: [] for key in runs}
    cpu: dict[str, list[float]] = {key: [] for key in runs}
    with torch.no_grad():
        for _ in range(rounds):
            for key, run in runs.items():
                run()
                begun, spent = time.perf_counter(), time.process_time()
                run()
                cpu[key].append(time.process_time() - spent)
                wall[key].append(time.perf_counter() - begun)
    for key in runs:
        print(
            f"{name} {key:26} wall {statistics.median(wall[key]) * 1e3:8.2f} ms (least "
            f"{min(wall[key]) * 1e3:.2f}), CPU {statistics.median(cpu[key]) * 1e3:8.2f} ms"
        )


def _optimised(peer: TorchGraph, tensor: Any, torch: Any) -> Any:
    """Return PyTorch's network after its own optimisations for inference: folds and fusions."""

    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return peer(x)[0]

    with torch.no_grad():
        traced = torch.jit.trace(Module().eval(), tensor)
        return torch.jit.optimize_for_inference(torch.jit.freeze(traced))


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", nargs="*", choices=[*NETWORKS], help="networks; all by default")
    parser.add_argument("--time", nargs="*", choices=[*NETWORKS], default=[])
    parser.add_argument("--tune", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--log", default="", help="of tuning")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    import torch

    for name in NETWORKS if options.check is None and not options.time else options.check or ():
        check(name, torch)
    for name in options.time:
        timed(name, torch, options.tune, options.log or f"{name}.log", options.rounds)


if __name__ == "__main__":
    main()
