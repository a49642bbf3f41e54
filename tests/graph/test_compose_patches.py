"""Convolutions of patches side by side become products where a template computes only these."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, compose

RNG = np.random.default_rng(0)
IMAGES = Variable(TensorType((2, 3, 8, 12), "float64"), "x")


def convolution(weight=(5, 3, 4, 4), known=True, **attributes):
    numbers = Constant.of(RNG.normal(size=weight))
    w = numbers if known else Variable(numbers.type, "w")
    return Graph.of(apply(ops.Conv2d(**{"strides": weight[2:], **attributes}), IMAGES, w))


def composed(graph, served=("nn.dense",)):
    return compose(OWN(graph), lambda node: node.op.name in served)


def work_of(graph):
    return [node.op.name for node in graph.nodes if node.op.name not in ("reshape", "transpose")]


@pytest.mark.parametrize("weight", [(5, 3, 4, 4), (1, 3, 2, 3), (4, 3, 8, 12)])
def test_patches_are_rows_of_a_product(weight):
    graph = convolution(weight)
    found = composed(graph)
    assert work_of(found) == ["nn.dense"]
    x = RNG.normal(size=IMAGES.shape)
    np.testing.assert_allclose(found.run(x)[0], graph.run(x)[0], 1e-9, 1e-9)


OTHERS = {
    "windows that overlap": {"strides": (2, 2)},
    "windows apart": {"strides": (5, 5)},
    "padding": {"padding": (1,)},
    "dilation": {"dilation": (2,)},
    "pixels that are left": {"weight": (5, 3, 5, 4)},
    "single pixels": {"weight": (5, 3, 1, 1)},
    "weights that are inputs": {"known": False},
    "groups": {"weight": (6, 1, 4, 4), "groups": 3},
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_convolutions(name):
    assert "nn.conv2d" in work_of(composed(convolution(**OTHERS[name])))


def test_it_stays_where_a_template_computes_it_or_none_the_product():
    graph = convolution()
    assert work_of(composed(graph, ("nn.dense", "nn.conv2d"))) == ["nn.conv2d"]
    assert work_of(composed(graph, ())) == ["nn.conv2d"]
