"""The generator of DCGAN (Radford et al., 2015)."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import reshape, tanh, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload


def _deconv(data: Value, channels: int, name: str) -> Value:
    return layers.conv2d_transpose(
        data, channels=channels, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1),
        output_padding=(0, 0), name=name,
    )  # fmt: skip


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    code: Value | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the network: from a vector to an image of 64 times 64.

    Raises:
        GraphError: another size or layout is asked for.
    """
    if layout != "NCHW" or tuple(oshape[-2:]) != (64, 64):
        raise GraphError(f"dcgan: expected images 64x64 in NCHW, got {oshape} in {layout!r}")
    if code is None:
        code = var("data", shape=(batch_size, random_len), dtype=dtype)
    units = 4 * 4 * ngf * 8
    weight = layers.parameter("dense_weight", (units, code.shape[1]), code)
    body = nn.relu(nn.dense(code, weight, units=units))
    body = reshape(body, newshape=(-1, ngf * 8, 4, 4))
    for prefix, channels in (("g2", ngf * 4), ("g3", ngf * 2), ("g4", ngf)):
        body = _deconv(body, channels, f"{prefix}_deconv")
        body = layers.batch_norm_infer(
            body, epsilon=1e-5 + 1e-12, scale=False, name=f"{prefix}_batch_norm"
        )
        body = nn.relu(body)
    body = tanh(_deconv(body, oshape[0], "g5_deconv"))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    net = get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype)
    return create_workload(net)
