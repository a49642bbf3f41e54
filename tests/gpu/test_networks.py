"""Networks on a GPU, untuned: every kernel, and one CUDA graph of them."""

import numpy as np
import pytest

from autotune.network import compile_network
from autotune.runtime.timing import TimeOptions
from tests.graph.networks import SMALL, bound, inputs_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", SMALL)
def test_every_network_of_the_zoo_is_right_on_the_gpu_untuned(name):
    graph = bound(name)
    arrays = inputs_of(graph)
    instance = compile_network(graph, "cuda").instance()
    got = [each.numpy() for each in instance(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        assert np.linalg.norm(one - want) / np.linalg.norm(want) < 1e-5
    assert instance.time(TimeOptions(number=3, repeat=3)).median > 0
