"""Quantised networks on a GPU: results and times, beside float16 of ours and of PyTorch."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.graph import Array, Graph
from autotune.graph.passes import mixed_precision
from autotune.network import CompiledNetwork, NetworkInstance, compile_network, report
from autotune.target import Target
from benchmarks.networks.image_models import graph_of
from benchmarks.networks.quantiser import quantised, steps_of
from benchmarks.networks.torch_rivals import rivals_on_gpu
from benchmarks.rivals import set_up
from benchmarks.turns import in_turns, torch_sampler

# Runs in one sample.
_RUNS = 20


def _images(graph: Graph, seed: int) -> dict[str, Array]:
    """Return drawn numbers for the input of a network."""
    rng = np.random.default_rng(seed)
    return {each.name: rng.normal(size=each.shape).astype("float32") for each in graph.inputs}


def agreement(got: Array, want: Array) -> dict[str, float]:
    """Return the share of equal results, and the greatest difference in steps of the results."""
    gaps = np.diff(np.unique(want.astype("float64")))
    step = float(gaps[gaps > 1e-6 * np.abs(want).max()].min())
    steps = np.rint(np.abs(got.astype("float64") - want) / step)
    return {"equal": float(np.mean(steps == 0)), "steps": float(steps.max())}


def _results(network: CompiledNetwork, feed: dict[str, Array]) -> Array:
    array: Array = network.instance()(*feed.values())[0].numpy()
    return array


def _in_microseconds(seconds: list[float]) -> list[float]:
    """Return the least, the median and the greatest."""
    return [round(1e6 * part(seconds), 1) for part in (min, statistics.median, max)]


def _samples(instances: dict[str, NetworkInstance]) -> dict[str, Callable[[], float]]:
    samples: dict[str, Callable[[], float]] = {}
    for key, instance in instances.items():
        sampler = instance.program.sampler()
        samples[key] = lambda s=sampler: s.sample(_RUNS) / _RUNS  # type: ignore[misc]
    return samples


def compare(name: str, target: Target, batch: int, dtype: str, rounds: int, profile: bool) -> None:
    """Print one line of JSON: how a quantised network agrees with a CPU, and times in turns.

    Args:
        name: of a network of `image_models`.
        dtype: of the images in 8-bit integers.
        profile: whether the times of kernels are printed first.
    """
    import torch

    graph = graph_of(name, batch)
    feed = _images(graph, 7)
    one = graph_of(name, 1)
    whole = quantised(graph, steps_of(one, _images(one, 0), target, dtype))
    halves = mixed_precision("float16")(graph)
    networks = {
        dtype: compile_network(whole, target),
        "float16": compile_network(halves, target),
    }
    found: dict[str, Any] = {"model": name, "batch": batch}
    if batch == 1:  # a CPU takes long for more
        want = _results(compile_network(whole, "llvm"), feed)
        found |= agreement(_results(networks[dtype], feed), want)
    instances = {key: network.instance() for key, network in networks.items()}
    for key, instance in instances.items():
        for number, array in enumerate(feed.values()):
            instance.set_input(number, array)
        if profile:
            print(f"{name}, batch {batch}, {key}\n{report(instance)}\n", flush=True)
    set_up(torch)
    samples = _samples(instances)
    with torch.no_grad():
        for way, run in rivals_on_gpu(graph, torch, "float16"):
            samples[f"torch float16, {way}"] = torch_sampler(torch, run, _RUNS)
        taken = in_turns(samples, rounds)
    found["us"] = {key: _in_microseconds(seconds) for key, seconds in taken.items()}
    print(json.dumps(found), flush=True)
