"""Records stand under the names that operations had when they were written."""

import json

import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.equivalent_keys import equivalent_keys, structural_hash
from tests.auto_scheduler.graphs import matmul, tutorial_layer
from tests.auto_scheduler.resnet18 import build, printed_tasks


def hashes(tensors):
    return [json.loads(key)[0] for key in equivalent_keys(ComputeDAG(tensors))]


def test_the_own_key_comes_first_and_that_of_a_function_before_it():
    dag = ComputeDAG(tutorial_layer())
    keys = equivalent_keys(dag, '["conv2d_layer", 1]')
    assert keys[:2] == ('["conv2d_layer", 1]', dag.workload_key())
    assert len(set(keys)) == len(keys)


def test_average_pooling_is_found_under_its_name_before_tvm_0_11():
    x = te.placeholder((1, 7, 7, 512), name="p0")
    found = hashes([x, topi.nn.global_pool(x, "avg", "NHWC")])
    # The tutorial prints the first; records of TVM's continuous integration have the second.
    assert found[0] == "8c53ca2904398da2889aa7508082d7bb"
    assert "be3babb9a46e32f66b717a3e2a2d522c" in found


def test_inputs_of_networks_were_called_otherwise():
    first = ComputeDAG(build(printed_tasks()[0]))
    assert len(hashes(first.tensors)) > len(hashes(matmul(8, 8, 8)))
    assert equivalent_keys(ComputeDAG(matmul(8, 4, 2))) == (
        f'["{ComputeDAG(matmul(8, 4, 2)).hash_key()}", [8, 2], [2, 4], [8, 4]]',
        f'["{ComputeDAG(matmul(8, 4, 2)).hash_key()}", 8, 2, 2, 4, 8, 4]',
    )


def normalized(x):
    """A sum with a bias of each channel, and ReLU, as a network's compiler fuses them."""
    bias = te.placeholder((1, 1, 1, 64), name="p2" if x.op.tag.startswith("conv") else "p1")
    return [bias, topi.nn.relu(topi.add(x, bias))]


def convolution(side, size, channels, stride=1, padding=0):
    x = te.placeholder((1, side, side, channels), name="p0")
    w = te.placeholder((size, size, channels, 64), name="p1")
    return [x, w, *normalized(topi.nn.conv2d_nhwc(x, w, stride, padding, 1))]


def pooling():
    x = te.placeholder((1, 112, 112, 64), name="p0")
    pooled = topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NHWC")
    return [x, *normalized(pooled)]


def mean():
    x = te.placeholder((1, 7, 7, 2048), name="p0")
    return [x, topi.nn.global_pool(x, "avg", "NHWC")]


def softmax():
    x = te.placeholder((1, 1000), name="p0")
    return [x, topi.nn.softmax(x)]


@pytest.mark.parametrize(
    ("tensors", "key"),
    [
        (convolution(56, 1, 64), "6b7583cf23c7c37d3212cad9d06e58c1"),
        (convolution(56, 3, 64, padding=1), "2350d19dc42a0665244368384c66b3a5"),
        (convolution(224, 7, 3, 2, 3), "12b88bedece6984af589a28b43e0f3c4"),
        (pooling(), "a5612fdeb9db4d579a75ec225ea4c06a"),
        (mean(), "69115f188984ae34ede37c3b8ca40b43"),
        (softmax(), "d7b65649a4dd54becea0a52aabbc5af5"),
    ],
)
def test_keys_of_early_2021_have_all_extents_in_one_list_and_older_names(tensors, key):
    extents = [extent for tensor in tensors for extent in tensor.shape]
    assert json.dumps([key, *extents]) in equivalent_keys(ComputeDAG(tensors))


def named(name, letters):
    a = te.placeholder((8, 4), name=f"{name}_in")
    k = te.reduce_axis((0, 4), f"{letters}k")
    b = te.compute((8,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name=name)
    return [a, te.compute((8,), lambda j: te.max(b[j], 0.0), name=f"{name}_out")]


def test_the_structure_of_a_graph_does_not_depend_on_names():
    one, other = ComputeDAG(named("B", "x")), ComputeDAG(named("conv", "y"))
    assert one.hash_key() != other.hash_key()
    assert structural_hash(one) == structural_hash(other)


@pytest.mark.parametrize("change", ["shape", "dtype", "constant", "condition"])
def test_what_computes_something_else_has_another_structure(change):
    def graph(n=8, dtype="float32", factor=2.0, **more):
        a = te.placeholder((n, 4), dtype, name="A")
        k = te.reduce_axis((0, 4), "k")
        where = {"where": k > 1} if more else {}
        value = te.const(factor, dtype)
        return [a, te.compute((n,), lambda i: te.sum(a[i, k] * value, axis=k, **where), "B")]

    changed = {
        "shape": graph(n=16), "dtype": graph(dtype="float16"), "constant": graph(factor=3.0),
        "condition": graph(condition=True),
    }  # fmt: skip
    assert structural_hash(ComputeDAG(changed[change])) != structural_hash(ComputeDAG(graph()))
