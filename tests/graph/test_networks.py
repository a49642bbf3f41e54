"""The zoo through TVM's passes and fusion: the numbers that TVM's own tests and logs have."""

import json
from collections import Counter

import numpy as np
import pytest

from autotune.auto_scheduler import ComputeDAG
from autotune.graph import Constant, passes
from autotune.graph.fuse import partition
from autotune.graph.verify import verify
from autotune.tvm.relay import testing
from tests.auto_scheduler.resnet18 import printed_tasks
from tests.graph.networks import SMALL, bound, inputs_of

NHWC = {"layout": "NHWC", "image_shape": (224, 224, 3)}


def keys_of(functions):
    return Counter(
        ComputeDAG(list(each.tensors())).workload_key() for each in functions if each.has_reduction
    )


@pytest.fixture(scope="module")
def resnet18():
    module, params = testing.resnet.get_workload(**NHWC)
    return partition(passes.RELAY_CUDA(module["main"].graph.bind(params)))


def test_the_24_tasks_of_resnet_18_come_out_of_the_network_itself(resnet18):
    keys = keys_of(resnet18)
    assert set(keys) == {task.key for task in printed_tasks()}
    assert sum(keys.values()) == 25
    (twice,) = [key for key, count in keys.items() if count == 2]
    assert json.loads(twice)[0] == "7c2a4f1f432f81c44985590780dfb52d"


def test_the_order_is_that_of_running_and_flatten_needs_no_kernel(resnet18):
    names = [each.name for each in resnet18]
    assert names[0] == "fused_add"
    assert names[-4:] == [
        "fused_nn_global_avg_pool2d", "fused_nn_batch_flatten", "fused_nn_dense_add",
        "fused_nn_softmax",
    ]  # fmt: skip
    assert [each.name for each in resnet18 if each.is_free] == ["fused_nn_batch_flatten"]
    known = set()
    for each in resnet18:
        made = {value for other in resnet18 for value in other.outputs}
        assert all(value in known for value in each.inputs if value in made)
        known |= set(each.outputs)


# Numbers of TVM's own tests (tests/python/relay/test_auto_scheduler_task_extraction.py and the
# tutorials): tasks, sum of weights, functions.
@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("make", "tasks", "weight", "functions"),
    [
        (lambda: testing.resnet.get_workload(), 24, 25, 31),
        (lambda: testing.mobilenet.get_workload(), 22, 30, 31),
        (lambda: testing.mobilenet.get_workload(**NHWC), 22, 30, 31),
        (lambda: testing.resnet_3d.get_workload(image_shape=(3, 16, 224, 224)), 23, 24, 30),
        (
            lambda: testing.resnet_3d.get_workload(
                image_shape=(16, 224, 224, 3), layout="NDHWC"
            ),
            23, 24, 30,
        ),
        (lambda: testing.resnet.get_workload(num_layers=50, **NHWC), 29, 57, 71),
        (lambda: testing.squeezenet.get_workload(version="1.1"), 23, 31, 40),
        (lambda: testing.inception_v3.get_workload(), 56, 110, 122),
    ],
    ids=["resnet18", "mobilenet", "mobilenet-nhwc", "resnet3d", "resnet3d-ndhwc", "resnet50",
         "squeezenet", "inception"],
)  # fmt: skip
def test_counts_of_tasks_are_those_of_tvm(make, tasks, weight, functions):
    module, params = make()
    found = partition(passes.RELAY_CUDA(module["main"].graph.bind(params)))
    distinct = {}
    for each in found:
        distinct.setdefault(each.signature, []).append(each)
    keys = Counter()
    for group in distinct.values():
        if group[0].has_reduction:
            keys[ComputeDAG(list(group[0].tensors())).workload_key()] += len(group)
    assert (len(keys), sum(keys.values()), len(found)) == (tasks, weight, functions)


def test_parameters_of_resnet_18_have_the_order_and_first_values_of_tvm():
    module, params = testing.resnet.get_workload(**NHWC)
    names = [each.name for each in module["main"].params]
    assert names[:6] == [
        "data", "bn_data_gamma", "bn_data_beta", "bn_data_moving_mean", "bn_data_moving_var",
        "conv0_weight",
    ]  # fmt: skip
    assert list(params) == names[1:]
    assert (len(params), sum(v.numpy().size for v in params.values())) == (99, 11_699_892)
    rng = np.random.RandomState(0)
    scale = np.sqrt(3 / ((7 * 3 * 64 + 7 * 3 * 64) / 2))
    assert params["conv0_weight"].shape == (7, 7, 3, 64)
    first = rng.uniform(-scale, scale, (7, 7, 3, 64)).astype("float32")
    np.testing.assert_array_equal(params["conv0_weight"].numpy(), first)
    np.testing.assert_array_equal(params["bn0_gamma"].numpy(), np.ones(64))


def test_mobilenet_keeps_the_axis_of_its_first_batch_norm_in_nhwc():
    _, params = testing.mobilenet.get_workload(**NHWC)
    assert params["conv_block_1_bn_gamma"].shape == (112,)
    assert params["separable_conv_block_1_weight"].shape == (3, 3, 32, 1)
    assert params["separable_conv_block_1_bn1_gamma"].shape == (32,)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("pipeline", [passes.RELAY_CUDA, passes.OWN], ids=lambda p: p.name)
def test_passes_and_fusion_do_not_change_what_a_network_computes(name, pipeline):
    graph = bound(name)
    arrays = inputs_of(graph)
    expected = graph.run(*arrays)
    simpler = pipeline(graph)
    verify(simpler)
    for got, want in zip(simpler.run(*arrays), expected, strict=True):
        # Folded constants are rounded to float32 once.
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    values = dict(zip(simpler.inputs, [a.astype("float64") for a in arrays], strict=True))
    for function in partition(simpler):
        known = values | {v: v.array for v in function.inputs if isinstance(v, Constant)}
        given = [known[v] for v in function.inputs]
        values.update(zip(function.outputs, function.graph.run(*given), strict=True))
    np.testing.assert_allclose(values[simpler.outputs[0]], expected[0], rtol=1e-4, atol=1e-5)


def test_nothing_is_left_that_training_needs():
    for name in SMALL:
        names = {node.op.name for node in passes.RELAY_CUDA(bound(name)).nodes}
        assert not names & {"nn.batch_norm", "nn.dropout", "nn.bias_add", "sqrt"}, name


def test_without_optimisation_nothing_is_fused_and_little_is_changed():
    graph = passes.RELAY_CUDA(bound("resnet-nhwc"), opt_level=0)
    functions = partition(graph, opt_level=0)
    assert len(functions) == len(graph.nodes)
    assert any(node.op.name == "sqrt" for node in graph.nodes)


def test_unknown_networks_are_refused():
    with pytest.raises(ValueError, match="no experiments done on num_layers 17"):
        testing.resnet.get_workload(num_layers=17)
    with pytest.raises(ValueError, match="version must be"):
        testing.squeezenet.get_workload(version="2")
    with pytest.raises(ValueError, match="num_layers must be 11"):
        testing.vgg.get_workload(1, num_layers=12)
