"""PyTorch's ways to run a network: eager, and traced and frozen, in both layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from autotune.graph import Graph
from autotune.network.compile import simplify_graph
from autotune.target import Target
from benchmarks.networks.torch_graph import TorchGraph


def input_of(graph: Graph) -> np.ndarray[Any, Any]:
    """Return numbers for the network's input."""
    data = np.random.default_rng(1).normal(size=graph.inputs[0].shape)
    return data.astype(graph.inputs[0].dtype)


def first_of(peer: TorchGraph, x: Any) -> Any:
    """Return the first result of a network."""
    return peer(x)[0]


def frozen(peer: TorchGraph, tensor: Any, torch: Any) -> Any:
    """Return PyTorch's network after its own optimisations for inference: folds and fusions."""

    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return first_of(peer, x)

    traced = torch.jit.trace(Module().eval(), tensor)
    return torch.jit.optimize_for_inference(torch.jit.freeze(traced))


def rivals_on_gpu(graph: Graph, torch: Any, kind: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield PyTorch's ways to run a network; the last has cuDNN's kernels for what follows."""
    dtype = getattr(torch, kind)
    folded = simplify_graph(graph, Target("c"))  # for which norms stay arithmetic
    for last in (False, True):
        layout = "channels_last" if last else "NCHW"
        for passes, one in (("", graph), (", batch norms folded", folded)):
            peer = TorchGraph(one, torch, dtype, "cuda", last)
            yield f"{layout}{passes}", partial(peer, peer.tensor(input_of(graph)))
        tensor = peer.tensor(input_of(graph))
        yield f"{layout}, traced and frozen", partial(frozen(peer, tensor, torch), tensor)
