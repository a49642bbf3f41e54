"""TVM's zoo: networks for tests and tutorials, with TVM's names, orders and first values."""

from autotune.tvm.relay.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    vgg,
)
from autotune.tvm.relay.testing.init import create_workload, run_infer_type

__all__ = [
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "mlp",
    "mobilenet",
    "resnet",
    "resnet_3d",
    "run_infer_type",
    "squeezenet",
    "vgg",
]
