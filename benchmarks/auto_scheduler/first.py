"""CPU seconds from the definition of a graph to the first batch of its search, and by part.

    python -m benchmarks.auto_scheduler.first
    python -m benchmarks.auto_scheduler.first --target llvm --graphs chain4 attention

Graphs of several products or convolutions have the most sketches, states and numbers. Nothing is
built or run, so no device is needed; the name of an architecture stands for one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel

ROWS, FEATURES, BATCH = 128, 256, 16


def product(x: Any, weight: Any, name: str) -> Any:
    """Define the product of two matrices."""
    k = te.reduce_axis((0, weight.shape[0]), name=f"k_{name}")
    shape = (x.shape[0], weight.shape[1])
    return te.compute(
        shape, lambda i, j: te.sum(x[i, k] * weight[k, j], axis=[k]), name=f"product_{name}"
    )


def chain(count: int) -> list[Any]:
    """Define products each of which multiplies the result of the one before."""
    tensors = [te.placeholder((ROWS, FEATURES), name="x")]
    x = tensors[0]
    for i in range(count):
        tensors.append(te.placeholder((FEATURES, FEATURES), name=f"w{i}"))
        x = product(x, tensors[-1], str(i))
    return [*tensors, x]


def beside(count: int) -> list[Any]:
    """Define the sum of products of one operand."""
    tensors = [te.placeholder((ROWS, FEATURES), name="x")]
    weights = [te.placeholder((FEATURES, FEATURES), name=f"w{i}") for i in range(count)]
    total = product(tensors[0], weights[0], "0")
    for i, weight in enumerate(weights[1:], 1):
        total = topi.add(total, product(tensors[0], weight, str(i)))
    return [*tensors, *weights, total]


def convolutions(count: int) -> list[Any]:
    """Define convolutions with ReLU, one after the other."""
    tensors = [te.placeholder((1, 64, 28, 28), name="x")]
    x = tensors[0]
    for i in range(count):
        tensors.append(te.placeholder((64, 64, 3, 3), name=f"w{i}"))
        x = topi.nn.relu(topi.nn.conv2d_nchw(x, tensors[-1], 1, 1, 1))
    return [*tensors, x]


def attention() -> list[Any]:
    """Define softmax attention of 8 heads, 128 queries and keys of 64."""
    q, k, v = [te.placeholder((8, 128, 64), name=name) for name in "qkv"]
    d, s = te.reduce_axis((0, 64), name="d"), te.reduce_axis((0, 128), name="s")
    scores = te.compute(
        (8, 128, 128), lambda b, i, j: te.sum(q[b, i, d] * k[b, j, d], axis=[d]), name="scores"
    )
    p = topi.nn.softmax(scores)
    out = te.compute(
        (8, 128, 64), lambda b, i, j: te.sum(p[b, i, s] * v[b, s, j], axis=[s]), name="out"
    )
    return [q, k, v, out]


GRAPHS: dict[str, Callable[[], list[Any]]] = {
    "chain1": lambda: chain(1),
    "chain4": lambda: chain(4),
    "chain8": lambda: chain(8),
    "beside4": lambda: beside(4),
    "convolutions4": lambda: convolutions(4),
    "attention": attention,
}


def parts(name: str, target: str) -> str:
    """Return what the parts of a first batch took, as a row."""
    clocks = [time.process_time()]
    task = SearchTask(compute_dag=ComputeDAG(GRAPHS[name]()), target=target)
    policy = SketchPolicy(task, XGBModel(), seed=0, verbose=0)
    sketches = len(policy.sketches)
    clocks.append(time.process_time())
    programs = len(policy.proposer.programs)
    clocks.append(time.process_time())
    policy.propose(BATCH)
    clocks.append(time.process_time())
    made, formed, proposed = [b - a for a, b in pairwise(clocks)]
    return (
        f"{name:14} {sketches:3} sketches {made:5.2f} s, {programs:3} programs {formed:5.2f} s, "
        f"first batch {proposed:5.2f} s, together {clocks[-1] - clocks[0]:5.2f} s"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each graph; one small one before is not counted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=[*GRAPHS])
    options = parser.parse_args(argv)
    parts("chain1", options.target)
    for name in options.graphs:
        print(parts(name, options.target), flush=True)


if __name__ == "__main__":
    main()
