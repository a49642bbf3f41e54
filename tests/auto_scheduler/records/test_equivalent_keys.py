"""Records stand under the names that operations had when they were written."""

import json

import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.problem.equivalent_keys import equivalent_keys, structural_hash
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
        '["5f83f35c0c21d217b91d820a2477286a"]',
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


# What the log of ResNet-18 of TVM's continuous integration of November 2020 has.
FIRST = """
    a0eb8d6048282a4a0986cc2ccf14eaa2 f2e3c09a00e7d0a9897f70497e089f1e
    bf78a7bf0209980f72953637dfd14a6f fa26946d7ac51126bfa859cb183f9ca1
    de0df0893e01892cfe69f7bc2c24111f 022ebb6b7c55c5ed030421380ec83a04
    6630936c26852f2b89dbfa2ff37fbb9c c5ee3e05edd9754492d0763aa41fd025
    c035cc8b0568a8e054d06bd7f4950550 c7a6b56bdc04b94c829fb2ef9874019e
    ba5f918733ccbbd4a1d7fd3724665a2f 0141ffc4fbabc10cc5a94c954419055b
    a169cd0053d3a7ca82998fcb62e42c58 424ba83160af31badc0b098136e1a3b0
    21ad409d72953de188314010134e3acd 7e83a2ee5cd5d50282ed19310700046a
    ac6920940de3797cc3f9f9c260675e5d 8d5a93959138dc7b2ee1f1b3219dfa14
"""


def test_keys_of_2020_are_found_for_the_layers_of_the_tutorial():
    graphs = [ComputeDAG(build(task)) for task in printed_tasks()]
    found = {key for graph in graphs for key in equivalent_keys(graph)}
    assert [each for each in FIRST.split() if json.dumps([each]) not in found] == []


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
