"""Workloads by name, and the keys that logs have for them."""

import json
import pickle
import sys

import pytest

from autotune import te
from autotune.auto_scheduler import workload_registry as registry
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.errors import TemplateError
from tests.auto_scheduler.graphs import conv2d_layer, matmul

pytestmark = pytest.mark.usefixtures("own_registry")


def test_a_function_is_known_by_its_qualified_name_and_its_arguments():
    assert registry.register_workload(conv2d_layer) is conv2d_layer
    key = registry.make_workload_key(conv2d_layer, (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1)))
    # As in the tutorial's own log.
    assert key == '["conv2d_layer", 1, 7, 7, 512, 512, 3, 3, [1, 1], [1, 1]]'
    assert (
        registry.make_workload_key("conv2d_layer", [1, 7, 7, 512, 512, 3, 3, [1, 1], [1, 1]])
        == key
    )


def test_a_name_may_be_given_and_then_decorates():
    registry.register_workload("product")(matmul)
    assert registry.make_workload_key("product", (8, 8, 4)) == '["product", 8, 8, 4]'


def test_the_tensors_of_a_key_come_from_the_function():
    registry.register_workload("product", f=matmul)
    a, b, c = registry.workload_key_to_tensors('["product", 8, 6, 4]')
    assert (a.shape, b.shape, c.shape) == ((8, 4), (4, 6), (8, 6))


def test_nested_tuples_reach_the_function_as_lists():
    seen = []

    def workload(stride):
        seen.append(stride)
        return matmul(4, 4, 4)

    registry.register_workload(workload)
    key = registry.make_workload_key(workload, ((1, (2, 3)),))
    registry.workload_key_to_tensors(key)
    assert seen == [[1, [2, 3]]]


def test_a_tensor_as_argument_becomes_a_placeholder():
    registry.register_workload("copy", lambda x: [x, te.compute(x.shape, lambda i: x[i], "B")])
    key = registry.make_workload_key("copy", (te.placeholder((5,), dtype="int32"),))
    assert json.loads(key) == ["copy", ["TENSOR", [5], "int32"]]
    x, _ = registry.workload_key_to_tensors(key)
    assert (x.shape, x.dtype) == ((5,), "int32")


def test_a_graph_is_registered_under_its_key():
    tensors = matmul(8, 8, 4)
    key = registry.register_workload_tensors(ComputeDAG(tensors).workload_key(), tensors)
    assert registry.workload_key_to_tensors(key) == tensors
    other = json.dumps([registry.workload_func_name(key), [9, 4], [4, 8], [9, 8]])
    assert not registry.is_registered(other)


def test_a_name_is_taken_once():
    registry.register_workload("product", f=matmul)
    with pytest.raises(RuntimeError, match="'product' has been registered already"):
        registry.register_workload("product", f=matmul)
    registry.register_workload("product", f=conv2d_layer, override=True)
    assert registry.WORKLOAD_FUNC_REGISTRY["product"] is conv2d_layer


def test_a_cell_of_a_notebook_may_define_its_workload_again(monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In [1]: ", raising=False)
    for n in (4, 6):
        cell = lambda n=n: matmul(n, n, n)
        cell.__module__, cell.__qualname__ = "__main__", "product"
        registry.register_workload(cell)
        first, *_ = registry.workload_key_to_tensors(registry.make_workload_key(cell, ()))
        assert first.shape == (n, n)
    with pytest.raises(TemplateError, match="has been registered already"):
        registry.register_workload("product", f=matmul)


@pytest.mark.parametrize("key", ["", "[]", "{}", "[1, 2]", "matmul", None, 5])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(TemplateError, match="a workload key is a JSON list"):
        registry.workload_func_name(key)


def test_an_unknown_name_is_answered_with_the_nearest():
    registry.register_workload("matmul_add", f=matmul)
    with pytest.raises(ValueError, match=r"'matmul_ad' is not registered.*matmul_add"):
        registry.make_workload_key("matmul_ad", ())


def test_a_function_that_gives_no_tensors_is_named():
    registry.register_workload("broken", f=lambda: 3)
    with pytest.raises(TemplateError, match="'broken' must return a list of te tensors"):
        registry.workload_key_to_tensors('["broken"]')


def test_another_process_learns_of_a_workload():
    tensors = matmul(8, 8, 4)
    key = registry.register_workload_tensors(ComputeDAG(tensors).workload_key(), tensors)
    data = pickle.loads(pickle.dumps(registry.serialize_workload_registry_entry(key)))
    registry.WORKLOAD_FUNC_REGISTRY.clear()
    registry.deserialize_workload_registry_entry(data)
    assert ComputeDAG(registry.workload_key_to_tensors(key)).workload_key() == key


def test_a_registry_comes_back_from_a_file(tmp_path):
    registry.register_workload("product", f=matmul)
    registry.save_workload_func_registry(tmp_path / "registry.pkl")
    registry.WORKLOAD_FUNC_REGISTRY.clear()
    registry.load_workload_func_registry(tmp_path / "registry.pkl")
    assert registry.WORKLOAD_FUNC_REGISTRY["product"] is matmul
