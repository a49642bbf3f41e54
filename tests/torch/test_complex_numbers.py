"""Complex tensors in graphs of `torch.compile`: within networks, and between them and torch."""

import logging

import pytest

torch = pytest.importorskip("torch")

from tests.torch.test_compile import by_dynamo, same  # noqa: E402

nn = torch.nn
F = nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


def turned(x, turns):
    """Turn pairs of neighbouring numbers by angles of their positions."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None]).flatten(3)


def angles(positions, width):
    frequencies = 100.0 ** (-torch.arange(width) / width)
    return torch.polar(
        torch.ones(positions, width), torch.arange(positions)[:, None] * frequencies
    )


class Attention(nn.Module):
    """Queries and keys are turned by their positions."""

    def __init__(self, held):
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(8, 16)
        if held == "in a buffer":
            self.register_buffer("turns", angles(9, 2))
        elif held == "in an attribute":
            self.turns = angles(9, 2)

    def forward(self, x, turns=None):
        turns = self.turns[2 : 2 + x.shape[1]] if turns is None else turns
        q, k = self.project(x).reshape(*x.shape[:2], 2, 2, 4).unbind(2)
        q, k = (turned(each, turns).transpose(1, 2) for each in (q, k))
        return F.scaled_dot_product_attention(q, k, k).flatten(2)


def compiled_alike(model, caplog, *several):
    """Compare a model with itself compiled for several inputs; torch is to run nothing."""
    fast = by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for inputs in several:
            same(fast(*inputs), model(*inputs))
    assert not caplog.records


@pytest.mark.parametrize("held", ["in a buffer", "in an attribute"])
def test_rotary_positions_by_complex_numbers_are_within_one_network(held, caplog):
    compiled_alike(Attention(held).eval(), caplog, [torch.randn(2, 5, 8)])


def test_complex_inputs_are_read_as_they_lie(caplog):
    x, turns = torch.randn(2, 5, 8), angles(5, 4)
    inputs = [turns[:, :2].clone(), turns[:, ::2], turns[:, 2:].conj()]
    compiled_alike(Attention("nowhere").eval(), caplog, *([x, each] for each in inputs))


def test_complex_results_are_torchs(caplog):
    def function(x, y):
        pairs = torch.complex(x.exp() + 1, y.relu().softmax(-1) * 2)
        return pairs, pairs.abs() + x.sigmoid(), pairs.conj()

    x, y = torch.randn(2, 3, 4)
    compiled_alike(function, caplog, [x, y])


def test_parts_of_a_complex_input_are_results(caplog):
    def function(z, x):
        return torch.view_as_real(z), z.imag, x.exp() * z.abs()

    compiled_alike(function, caplog, [angles(3, 2), torch.randn(3, 2)])


def test_conjugates_and_negatives_of_what_is_written_or_made_keep_their_signs():
    def function(z, x):
        y = x.exp() * z.abs() + 1
        z.mul_(2)
        return z.conj(), z.conj()[1:], z[1:], z.conj().imag, y, torch._neg_view(y)

    fast, x = by_dynamo(function), torch.randn(3, 2)
    with torch.no_grad():
        for z in (angles(3, 2), angles(3, 2).conj()):
            own = z.clone()
            same(fast(own, x), function(z, x))
            same(own, z)


def test_what_torch_computes_of_complex_numbers_is_read_by_networks():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 8)

        def forward(self, x):
            waves = torch.fft.rfft(F.gelu(self.up(x)) * self.up(x).sigmoid() + 1, n=4098)
            waves = waves[:, :5] * torch.exp(1j * x[:, :5])
            return F.gelu(self.up(waves.abs() ** 2 @ x[:5])).softmax(-1), waves.real * 2

    model, x = Mixed().eval(), torch.randn(5, 8)
    with torch.no_grad():
        for got, want in zip(by_dynamo(model)(x), model(x), strict=True):
            same(got, want)
