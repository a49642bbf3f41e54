"""Layers that torch runs as one operator where no gradient is asked: they are taken apart."""

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402
from autotune.torch import backend  # noqa: E402
from tests.torch.test_compile import by_dynamo, same  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")
HIDDEN = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


class Encoder(nn.Module):
    """Layers of both kinds, with masks of keys and of queries."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.second = nn.TransformerEncoderLayer(8, 2, 16, 0.1, "gelu", 1e-5, True, True)

    def forward(self, x, hidden):
        later = torch.ones(5, 5, dtype=torch.bool).triu(1)
        x = self.second(self.first(x, src_key_padding_mask=hidden), src_mask=later)
        return self.second(x, src_mask=later, src_key_padding_mask=hidden)


def test_layers_of_an_encoder_are_within_one_network(caplog):
    model, x, graphs = Encoder().eval(), torch.randn(2, 5, 8), []

    def kept(graph, inputs):
        graphs.append(graph.code)
        return graph

    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        want = torch.compile(model, backend=kept)(x, HIDDEN)
        torch._dynamo.reset()
        same(by_dynamo(model)(x, HIDDEN), want)
    assert not caplog.records
    assert "_transformer_encoder_layer_fwd" in graphs[0]


class Attention(nn.Module):
    """Attention by torch's own operator."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.own = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, y, z, hidden):
        def attended(*inputs, **options):
            return torch._native_multi_head_attention(
                *inputs, 8, 2, self.own.in_proj_weight, self.own.in_proj_bias,
                self.own.out_proj.weight, self.own.out_proj.bias, **options,
            )  # fmt: skip

        return (
            *attended(x, x, x),
            *attended(x, x, x, average_attn_weights=False, mask=hidden, mask_type=1),
            attended(x, x, x, need_weights=False)[0],
            *attended(x, y, z),
        )


def test_attention_by_one_operator_is_imported():
    model, inputs = Attention().eval(), [*torch.randn(3, 2, 5, 8), HIDDEN]
    with torch.no_grad():
        want = model(*inputs)
        traced = torch.jit.trace(model, tuple(inputs), check_trace=False)
    found = from_pytorch(traced, tuple(inputs)).graph.run(*[each.numpy() for each in inputs])
    for got, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-6)


def test_recurrent_layers_are_compiled_where_dynamo_is_told_to_hand_them_over(caplog):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.last = nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            y, (hidden, _) = self.cells(x)
            return self.last(y), hidden

    model, x, graphs = Recurrent().eval(), torch.randn(1, 2, 4), []

    def kept(graph, inputs, **options):
        graphs.append(graph)
        return backend(graph, inputs, **options)

    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        with torch._dynamo.config.patch(allow_rnn=True):
            found = torch.compile(model, backend=kept)(x)
        for got, want in zip(found, model(x), strict=True):
            same(got, want)
    assert not caplog.records
    assert len(graphs) == 1
