"""Every pass and fusion, on graphs that are drawn operator by operator: what holds for all."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.graph import Constant, Graph, TensorType, Value, Variable, apply, ops
from autotune.graph.fuse import joint_functions, partition
from autotune.graph.passes import (
    OWN,
    OWN_LAYERS,
    RELAY_CUDA,
    alter_layout,
    canonicalize_ops,
    channels_first,
    channels_last,
    compose,
    eliminate_common,
    fold_affine,
    fold_constant,
    fold_scale_backward,
    fold_scale_forward,
    merge_products,
    mixed_precision,
    reshapes_last,
    simplify_expressions,
    simplify_inference,
    slices_first,
    to_conv2d,
    to_dense,
)

# Passes whose second run changes nothing.
SETTLED = {
    "simplify_inference": simplify_inference,
    "eliminate_common": eliminate_common,
    "fold_constant": fold_constant,
    "simplify_expressions": simplify_expressions,
    "canonicalize_ops": canonicalize_ops,
    "to_conv2d": to_conv2d,
    "to_dense": to_dense,
    "channels_first": channels_first,
    "channels_last": lambda graph: channels_last(graph, lambda node: True),
    "slices_first": slices_first,
    "reshapes_last": reshapes_last,
    "compose": lambda graph: compose(graph, lambda node: True),
}
OTHERS = {
    "fold_scale_backward": lambda graph: fold_scale_backward(fold_constant(graph)),
    "fold_scale_forward": lambda graph: fold_scale_forward(fold_constant(graph)),
    "fold_affine": fold_affine,
    "alter_layout": alter_layout,
    "merge_products": merge_products,
    "own": OWN,
    "own_layers": OWN_LAYERS,
    "relay": RELAY_CUDA,
}
EVERY = SETTLED | OTHERS
QUICK = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


class Drawn:
    """Graphs that are made step by step; each step takes values that there are already."""

    def __init__(self, draw, dtype):
        self.draw, self.dtype = draw, dtype
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))
        self.data = Variable(TensorType((2, 4, 3, 4), dtype), "x")
        self.values: list[Value] = [self.data, self.constant(2, 4, 3, 4)]

    def one_of(self, options):
        return self.draw(st.sampled_from(options))

    def constant(self, *shape):
        return Constant.of(self.rng.uniform(0.5, 1.5, shape).astype(self.dtype))

    def vector(self, value):
        """Return a constant vector along one axis of a value, in the shape of a broadcast."""
        axis = self.draw(st.integers(0, value.type.ndim - 1))
        return self.constant(value.shape[axis], *[1] * (value.type.ndim - 1 - axis))

    def elementwise(self, value):
        made = [ops.Relu(), ops.Sigmoid(), ops.Tanh(), ops.Clip(0.0, 6.0), ops.Negative()]
        return apply(self.one_of(made), value)

    def arithmetic(self, value):
        op = self.one_of([ops.Add(), ops.Multiply(), ops.Subtract(), ops.Maximum()])
        same = [each for each in self.values if each.type == value.type]
        number = Constant.of(np.array(self.one_of([0, 1, 0.5]), self.dtype))
        other = self.one_of([*same, number, self.vector(value)])
        return apply(op, *((value, other) if self.draw(st.booleans()) else (other, value)))

    def along(self, value):
        last = value.type.ndim - 1
        axis = self.draw(st.integers(0, last))
        return self.one_of([
            lambda: apply(ops.Softmax(self.one_of([axis, -1])), value),
            lambda: apply(ops.LayerNorm(-1, 1e-5, False, False), value),
            lambda: apply(ops.BiasAdd(axis), value, self.constant(value.shape[axis])),
            lambda: apply(ops.Mean((axis,), True), value),
            lambda: apply(
                ops.BatchNorm(axis), value, *[self.constant(value.shape[axis]) for _ in range(4)]
            ),
        ])()  # fmt: skip

    def moved(self, value):
        shape, rank = value.shape, value.type.ndim
        at = self.draw(st.integers(0, rank - 1))
        size = shape[at]
        options = [
            lambda: apply(ops.Transpose(tuple(self.draw(st.permutations(range(rank))))), value)
        ]
        if rank > 1 and at:
            joined = (*shape[: at - 1], shape[at - 1] * size, *shape[at + 1 :])
            options.append(lambda: apply(ops.Reshape(joined), value))
        if size % 2 == 0 and rank < 5:
            apart = (*shape[:at], 2, size // 2, *shape[at + 1 :])
            options.append(lambda: apply(ops.Reshape(apart), value))
            half = ops.StridedSlice((0,) * at + (size // 2,), shape[: at + 1])
            options.append(lambda: apply(half, value))
        return self.one_of(options)()

    def layer(self, value):
        if value.type.ndim == 4 and self.draw(st.booleans()):
            nhwc = self.draw(st.booleans())
            if self.draw(st.booleans()):
                value = apply(ops.GlobalAvgPool2d("NHWC" if nhwc else "NCHW"), value)
            channels = value.shape[3 if nhwc else 1]
            filters = (1, 1, channels, 4) if nhwc else (4, channels, 1, 1)
            layouts = ("NHWC", "HWIO") if nhwc else ("NCHW", "OIHW")
            op = ops.Conv2d(data_layout=layouts[0], kernel_layout=layouts[1])
            return apply(op, value, self.constant(*filters))
        width = value.shape[-1]
        rows = apply(ops.Reshape((value.type.size // width, width)), value)
        product = apply(ops.Dense(), rows, self.constant(4, width))
        return apply(ops.Reshape((*value.shape[:-1], 4)), product)

    def graph(self):
        for _ in range(self.draw(st.integers(1, 7))):
            step = self.one_of(
                [self.elementwise, self.arithmetic, self.along, self.moved, self.layer]
            )
            recent = self.values[-3:]
            self.values.append(step(self.one_of(recent)))
        outputs = self.draw(st.lists(st.sampled_from(self.values[1:]), max_size=2))
        return Graph((self.data,), (self.values[-1], *outputs))


@st.composite
def graphs(draw, dtype="float64"):
    return Drawn(draw, dtype).graph()


def run(graph):
    data = np.random.default_rng(5).normal(size=graph.inputs[0].shape)
    return graph.run(data)


def structure(graph):
    """Return operators with their operands by place, in which equal graphs are equal."""
    place = {value: i for i, value in enumerate(graph.inputs)}
    rows = []
    for node in graph.nodes:
        inputs = [place.get(each, str(each.type)) for each in node.inputs]
        rows.append((node.op, *inputs))
        place |= {value: len(place) + i for i, value in enumerate(node.outputs)}
    return rows, [place.get(value, str(value.type)) for value in graph.outputs]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", EVERY)
@QUICK
@given(graph=graphs())
def test_a_pass_keeps_results_and_their_types(name, graph):
    changed = EVERY[name](graph)
    assert [value.type for value in changed.outputs] == [value.type for value in graph.outputs]
    assert changed.inputs == graph.inputs
    for got, want in zip(run(changed), run(graph), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-7)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SETTLED)
@QUICK
@given(graph=graphs())
def test_a_pass_that_has_run_changes_nothing_more(name, graph):
    once = SETTLED[name](graph)
    assert structure(SETTLED[name](once)) == structure(once)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@QUICK
@given(graph=graphs("float32"))
def test_mixed_precision_changes_results_by_roundings_only(dtype, graph):
    changed = mixed_precision(dtype, keep_outputs=True)(graph)
    assert [value.type for value in changed.outputs] == [value.type for value in graph.outputs]
    for got, want in zip(run(changed), run(graph), strict=True):
        error = np.linalg.norm(got - want)
        assert error <= 0.05 * np.linalg.norm(want) + 1e-3


@QUICK
@given(graph=graphs(), opt_level=st.sampled_from([0, 3]))
def test_functions_have_each_node_once_and_compute_the_graph(graph, opt_level):
    graph = simplify_inference(graph)
    functions = partition(graph, opt_level)
    nodes = [node for function in functions for node in function.nodes]
    assert len(nodes) == len(set(nodes)) == len(graph.nodes)
    if not nodes:
        return
    joined = {id(part): each for each in joint_functions(graph, functions) for part in each.parts}
    data = np.random.default_rng(5).normal(size=graph.inputs[0].shape)
    known = {graph.inputs[0]: data}
    for function in functions:
        each = joined.get(id(function), function)
        if function is not each and any(value in known for value in each.outputs):
            continue  # the first part's kernel has computed it
        arrays = [
            value.array if isinstance(value, Constant) else known[value] for value in each.inputs
        ]
        known.update(zip(each.outputs, each.graph.run(*arrays), strict=True))
    outputs = [value for value in graph.outputs if value in known]
    wants = [want for value, want in zip(graph.outputs, run(graph), strict=True) if value in known]
    for value, want in zip(outputs, wants, strict=True):
        np.testing.assert_allclose(known[value], want, rtol=1e-9, atol=1e-9)
