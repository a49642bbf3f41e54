"""Networks drawn at random give numpy's numbers, on inputs that survive."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.graph import Graph
from autotune.network import compile_network
from autotune.tvm import relay

CHANNELS = (2, 4)


def constant(rng, *shape, low=-1.0):
    return relay.const(rng.uniform(low, 1, shape).astype("float32"))


def convolution(x, rng, draw):
    _, c, h, w = x.shape
    kernel = draw(st.sampled_from([1, 3] if min(h, w) >= 3 else [1]))
    padding = draw(st.sampled_from([0, kernel // 2]))
    depthwise = draw(st.booleans())
    filters = c if depthwise else draw(st.sampled_from(CHANNELS))
    weight = constant(rng, filters, 1 if depthwise else c, kernel, kernel)
    return relay.nn.conv2d(
        x, weight, strides=draw(st.sampled_from([(1, 1), (2, 2), (1, 2)])),
        padding=(padding, padding), groups=c if depthwise else 1, channels=filters,
        kernel_size=(kernel, kernel),
    )  # fmt: skip


def batch_norm(x, rng, draw):
    """Scales of both signs, and variances that may be nothing."""
    c = x.shape[1]
    variance = constant(rng, c, low=0) if draw(st.booleans()) else relay.const(np.float32([0] * c))
    return relay.nn.batch_norm(
        x, constant(rng, c), constant(rng, c), constant(rng, c), variance,
        epsilon=0.01, scale=draw(st.booleans()), center=draw(st.booleans()),
    )[0]  # fmt: skip


def pool(x, rng, draw):
    kind = draw(st.sampled_from([relay.nn.max_pool2d, relay.nn.avg_pool2d]))
    return kind(x, pool_size=(2, 2), strides=(1, 1), padding=(1, 1))


def unary(x, rng, draw):
    return draw(st.sampled_from([relay.nn.relu, relay.tanh, relay.negative]))(x)


def turned(x, rng, draw):
    return relay.transpose(x, (0, 1, 3, 2))


def reshaped(x, rng, draw):
    n, c, h, w = x.shape
    return relay.reshape(x, (n, c, w, h))


def scaled(x, rng, draw):
    by = constant(rng, x.shape[1], 1, 1)
    return draw(st.sampled_from([relay.add, relay.multiply, relay.subtract]))(x, by)


def softmax(x, rng, draw):
    return relay.nn.softmax(x, axis=draw(st.sampled_from([1, -1])))


ONE = (convolution, convolution, batch_norm, pool, unary, turned, reshaped, scaled, softmax)


@st.composite
def networks(draw):
    """Values made of earlier ones, some of them outputs; one input may be read by none."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    shapes = draw(st.lists(st.sampled_from([(1, 2, 5, 5), (1, 4, 4, 6)]), min_size=1, max_size=2))
    inputs = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)]
    values = list(inputs)
    for _ in range(draw(st.integers(1, 7))):
        x = draw(st.sampled_from(values))
        alike = [each for each in values if each.shape == x.shape]
        if draw(st.booleans()):
            y = draw(st.sampled_from(alike))
            if draw(st.booleans()):
                values.append(relay.add(x, y))
            else:
                values.append(relay.concatenate([x, y], axis=1))
        else:
            values.append(draw(st.sampled_from(ONE))(x, rng, draw))
    more = draw(st.lists(st.sampled_from(values), max_size=2))
    return Graph(tuple(inputs), (values[-1], *more))


@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(networks())
def test_a_network_drawn_at_random_gives_the_numbers_of_numpy_and_leaves_its_inputs(graph):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=each.shape).astype("float32") for each in graph.inputs]
    instance = compile_network(graph, "c", jobs=2).instance()
    instance.arena.fill_bytes(0xFF)
    got = [each.numpy() for each in instance(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)
    for given_, kept in zip(arrays, instance.inputs, strict=True):
        np.testing.assert_array_equal(kept.numpy(), given_)
