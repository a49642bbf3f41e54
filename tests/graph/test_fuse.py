"""Which operators become one function."""

import numpy as np

from autotune.graph import (
    Constant,
    Graph,
    Node,
    apply,
    equal,
    ops,
)
from autotune.graph.fuse import partition
from tests.graph.test_passes import IMAGES, constant, conv, shift, variable


def fused(*outputs, **kwargs):
    return [each.name for each in partition(Graph.of(*outputs), **kwargs)]


def test_epilogues_fuse_into_a_convolution_and_prologues_do_not():
    data = variable(IMAGES)
    out = apply(ops.Relu(), apply(ops.Add(), shift(conv(apply(ops.Relu(), data))), data))
    assert fused(out) == ["fused_nn_relu", "fused_nn_conv2d_add_add_nn_relu"]


def test_a_diamond_of_elementwise_operators_is_one_function():
    x = conv(variable(IMAGES))
    out = apply(ops.Add(), apply(ops.Exp(), x), apply(ops.Tanh(), x))
    assert fused(out) == ["fused_nn_conv2d_exp_tanh_add"]


def test_two_convolutions_are_never_one_function():
    data = variable(IMAGES)
    out = apply(ops.Add(), conv(data, 1), conv(data, 5))
    assert sorted(fused(out)) == ["fused_nn_conv2d", "fused_nn_conv2d_add"]


def test_producers_fuse_into_a_concatenation_only_if_it_is_the_root():
    data = variable(IMAGES)
    parts = [apply(ops.Exp(), data), apply(ops.Tanh(), data)]
    assert fused(apply(ops.Concatenate(1), *parts)) == ["fused_exp_tanh_concatenate"]
    joined = apply(ops.Concatenate(1), conv(data, 1), conv(data, 5))
    assert sorted(fused(joined)) == ["fused_concatenate", "fused_nn_conv2d", "fused_nn_conv2d"]


def test_elementwise_work_fuses_into_a_reduction_and_one_function_after_it_that_is_alone():
    x = apply(ops.Sum((1,)), apply(ops.Exp(), variable((2, 3))))
    assert fused(apply(ops.Relu(), x)) == ["fused_exp_sum_nn_relu"]
    several = apply(ops.Tanh(), apply(ops.Relu(), x))
    assert fused(several) == ["fused_exp_sum", "fused_nn_relu_tanh"]
    assert fused(apply(ops.Cast("float16"), x)) == ["fused_exp_sum", "fused_cast"]


def test_an_injective_operator_fuses_into_elementwise_ones_but_not_into_a_layer():
    x = apply(ops.Transpose(), variable((3, 2)))
    assert fused(apply(ops.Relu(), x)) == ["fused_transpose_nn_relu"]
    assert fused(apply(ops.Dense(), x, constant((4, 3)))) == ["fused_transpose", "fused_nn_dense"]


def test_an_output_that_is_also_read_ends_its_function():
    x = apply(ops.Exp(), variable((2, 3)))
    assert fused(x, apply(ops.Tanh(), x)) == ["fused_exp", "fused_tanh"]


def test_a_function_holds_no_more_than_the_greatest_depth():
    x = variable((2, 3))
    for _ in range(20):
        x = apply(ops.Exp(), x)
    assert len(fused(x)) == 1
    assert len(fused(x, max_depth=5)) >= 4
    assert len(fused(x, opt_level=0)) == 20
    assert len(fused(x)[0]) == 80 + 1 + 16  # cut, and a hash of what was cut


def test_parts_of_a_split_are_read_by_functions_of_their_own():
    data = variable((2, 6))
    a, b = Node(ops.Split(2, 1), (apply(ops.Exp(), data),)).outputs
    graph = Graph.of(apply(ops.Dense(), apply(ops.Tanh(), a), apply(ops.Relu(), b)))
    functions = partition(graph)
    names = [each.name for each in functions]
    assert names == ["fused_exp_split", "fused_tanh", "fused_nn_relu", "fused_nn_dense"]
    made = {value for each in functions for value in each.outputs}
    assert graph.outputs[0] in made
    assert all(v in made or v in graph.inputs for each in functions for v in each.inputs)


def test_equal_functions_have_equal_signatures_and_scalars_count():
    def network(number):
        x = apply(ops.Multiply(), conv(variable(IMAGES)), Constant.of(np.float32(number)))
        return partition(Graph.of(x))[0]

    assert network(2).signature == network(2).signature
    assert network(2).signature != network(3).signature
    assert [t.name for t in network(2).tensors()][:2] == ["p0", "p1"]
    assert equal(network(2).graph, network(2).graph)
