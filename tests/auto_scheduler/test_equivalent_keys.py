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
    assert len(equivalent_keys(first)) == 2
    assert len(equivalent_keys(ComputeDAG(matmul(8, 8, 8)))) == 1


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
