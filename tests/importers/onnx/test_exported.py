"""Models as PyTorch exports them: results, and operators that are found in their arithmetic."""

import io
import warnings

import numpy as np
import pytest

from autotune.graph import ops
from autotune.graph.passes import OWN, compose
from autotune.importers import from_onnx

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")


def exported(module, *inputs, opset=17, **options):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), inputs, file, dynamo=False, opset_version=opset, **options
        )
    return file.getvalue()


def check(module, *inputs, shapes=None, **options):
    """Compare with PyTorch; return the graph with norms, attention and activations composed."""
    torch.manual_seed(0)
    with torch.no_grad():
        expected = module.eval()(*inputs).numpy()
    network = from_onnx(exported(module, *inputs, **options), shapes)
    (result,) = network.graph.run(*[each.numpy() for each in inputs])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return compose(OWN(network.graph), lambda node: True)


class Block(torch.nn.Module):
    """A block of a transformer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)
        self.qkv = torch.nn.ModuleList([torch.nn.Linear(32, 32) for _ in range(3)])
        self.out, self.up, self.down = (
            torch.nn.Linear(*n) for n in ((32, 32), (32, 64), (64, 32))
        )  # fmt: skip

    def forward(self, x):
        batch, rows, size = x.shape
        y = self.first(x)
        q, k, v = [f(y).view(batch, rows, 4, size // 4).transpose(1, 2) for f in self.qkv]
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(made.transpose(1, 2).reshape(batch, rows, size))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


@pytest.mark.parametrize("opset", [14, 17])
def test_norms_attention_and_gelu_of_a_transformer_are_found(opset):
    axes = {"dynamic_axes": {"x": {0: "batch", 1: "rows"}}, "input_names": ["x"]}
    shapes = {"batch": 2, "rows": 5}
    graph = check(Block(), torch.randn(2, 5, 32), shapes=shapes, opset=opset, **axes)
    kinds = [type(node.op) for node in graph.nodes]
    assert kinds.count(ops.LayerNorm) == 2
    assert kinds.count(ops.Gelu) == 1
    assert sum(issubclass(kind, ops.Attention) for kind in kinds) >= 1 or any(
        "attention" in kind.name for kind in kinds
    )


def test_an_image_network_with_resizing_and_padding_is_read():
    net = torch.nn.Sequential(
        torch.nn.ReflectionPad2d(1), torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.BatchNorm2d(8),
        torch.nn.Hardswish(), torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
        torch.nn.PReLU(4), torch.nn.AvgPool2d(3, 2, ceil_mode=True), torch.nn.PixelShuffle(2),
    )  # fmt: skip
    check(net, torch.randn(1, 3, 10, 12))


def test_a_signal_network_of_one_dimension_is_read():
    net = torch.nn.Sequential(
        torch.nn.Conv1d(4, 8, 5, padding=2, dilation=1, groups=2), torch.nn.BatchNorm1d(8),
        torch.nn.ELU(), torch.nn.MaxPool1d(2), torch.nn.GroupNorm(2, 8), torch.nn.Flatten(),
        torch.nn.Linear(64, 3), torch.nn.LogSoftmax(-1),
    )  # fmt: skip
    graph = check(net, torch.randn(2, 4, 16))
    assert not any(isinstance(node.op, ops.BatchNorm) for node in graph.nodes)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0].sum(1)


def test_a_recurrent_network_is_read():
    check(Recurrent(), torch.randn(2, 7, 6))
