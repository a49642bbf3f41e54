"""Networks of the zoo, small and whole, with parameters drawn so that folding shows."""

import numpy as np

from autotune.tvm import relay
from autotune.tvm.relay import testing


def small_vgg():
    """VGG 11 with batch norms, but without its layers of 4096 units."""
    data = relay.var("data", shape=(1, 3, 32, 32))
    feature = testing.vgg.get_feature(data, (1, 1, 2, 2, 2), batch_norm=True)
    flat = relay.nn.batch_flatten(feature)
    return testing.create_workload(testing.layers.dense_add_bias(flat, units=10, name="fc8"))


# Small inputs, so that numpy runs them in a moment.
SMALL = {
    "resnet-nchw": lambda: testing.resnet.get_workload(
        num_layers=8, image_shape=(3, 28, 28), num_classes=10),
    "resnet-nhwc": lambda: testing.resnet.get_workload(
        num_layers=8, image_shape=(28, 28, 3), layout="NHWC", num_classes=10),
    "resnet_3d": lambda: testing.resnet_3d.get_workload(
        num_layers=8, image_shape=(3, 4, 16, 16), num_classes=10),
    "resnet_3d-ndhwc": lambda: testing.resnet_3d.get_workload(
        num_layers=8, image_shape=(4, 16, 16, 3), layout="NDHWC", num_classes=10),
    "mobilenet-nchw": lambda: testing.mobilenet.get_workload(
        image_shape=(3, 32, 32), num_classes=10),
    "mobilenet-nhwc": lambda: testing.mobilenet.get_workload(
        image_shape=(32, 32, 3), layout="NHWC", num_classes=10),
    "squeezenet-1.0": lambda: testing.squeezenet.get_workload(
        image_shape=(3, 56, 56), num_classes=10),
    "squeezenet-1.1": lambda: testing.squeezenet.get_workload(
        version="1.1", image_shape=(3, 56, 56), num_classes=10),
    "mlp": lambda: testing.mlp.get_workload(2),
    "vgg": lambda: small_vgg(),
    "dcgan": lambda: testing.dcgan.get_workload(1, ngf=8),
    "dqn": lambda: testing.dqn.get_workload(1, num_actions=4),
    "dqn-nhwc": lambda: testing.dqn.get_workload(
        1, num_actions=4, image_shape=(84, 84, 4), layout="NHWC"),
    "lstm": lambda: testing.lstm.get_workload(3, 16),
}  # fmt: skip


def drawn(params, seed=0):
    """Return parameters with statistics, scales of both signs and biases that matter."""
    rng = np.random.default_rng(seed)

    def draw(name, array):
        if name.endswith("var"):
            return rng.uniform(0.5, 2, array.shape)
        if name.endswith("gamma"):
            return rng.uniform(0.5, 1.5, array.shape) * rng.choice([-1, 1], array.shape)
        if name.endswith(("beta", "mean", "bias")):
            return rng.normal(0, 0.2, array.shape)
        return array

    return {k: draw(k, v.numpy()).astype("float32") for k, v in params.items()}


def bound(name, seed=0):
    """Return a small network's graph with drawn parameters."""
    module, params = SMALL[name]()
    return module["main"].graph.bind(drawn(params, seed))


def inputs_of(graph, seed=1):
    """Return an array for each input."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=each.shape).astype("float32") for each in graph.inputs]
