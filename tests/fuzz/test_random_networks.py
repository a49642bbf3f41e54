"""Networks drawn at random compute what numpy does in double precision, in every dtype.

pytest tests/fuzz/test_random_networks.py --networks 200
"""

import numpy as np
import pytest

from autotune.graph import Graph
from autotune.network import compile_network
from tests.fuzz import networks, quantised

# The error of one rounding, relative to a number, and how many of them an operator may make.
_UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_ROUNDINGS = 64


def computed(net, outputs, target):
    """Return what the kernels make of a network's inputs, over memory that holds NaNs."""
    instance = compile_network(Graph(tuple(net.feeds), tuple(outputs)), target).instance()
    instance.arena.fill_bytes(0xFF)
    return [each.numpy().astype("f8") for each in instance(*net.feeds.values())]


@pytest.mark.parametrize(
    ("dtype", "target"),
    [
        ("float32", "c"), ("float32", "cuda -emulate"), ("float16", "cuda -emulate"),
        ("bfloat16", "llvm"),
    ],
)  # fmt: skip
def test_networks_of_floats_compute_what_numpy_does(dtype, target, network_seeds):
    for seed in network_seeds:
        net, outputs = networks.network(seed, dtype)
        unit = _UNITS[dtype] * _ROUNDINGS * (1 + len(net.rules))
        for got, output in zip(computed(net, outputs, target), outputs, strict=True):
            want = net.exact[output]
            usual = max(np.sqrt(np.square(want).mean()), 0.3 * abs(want).max(), 0.01)
            right = abs(got - want) <= unit * np.maximum(usual, abs(want))
            assert right.all(), f"seed {seed}, {output}: {np.argwhere(~right)[0]}"


@pytest.mark.parametrize("target", ["c", "llvm", "cuda -emulate"])
def test_bytes_are_the_nearest_of_what_exact_arithmetic_makes_of_those_before(
    target, network_seeds
):
    """But for halves: where exact numbers are within float32's error of one, either is right.

    So networks differ from references by one step now and then, and more where later layers
    multiply it. Here each rounding is compared for the bytes that came before it.
    """
    # Emulated kernels for bytes take the longest to compile.
    for seed in network_seeds[:: 2 if "cuda" in target else 1]:
        net, outputs = quantised.network(seed)
        exact = dict(zip(outputs, computed(net, outputs, target), strict=True))
        for value, function, inputs in net.rules:
            numbers = [exact.get(each, net.exact[each]) for each in inputs]
            if value not in net.whole:
                exact[value] = function(*numbers)
                continue
            steps = net.whole[value]
            real = np.clip(numbers[0] / steps.size + steps.zero, *steps.ends)
            error = abs(exact[value] - real)
            unsure = 2.0**-21 * np.maximum(abs(numbers[0] / steps.size), 64)
            assert (error <= 0.5 + unsure).all(), f"seed {seed}, {value}: {error.max()}"
