"""Graphs that `torch.compile` calls with ever new shapes."""

import logging

import pytest

import autotune
from autotune.torch.tensor_network import TensorNetwork

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.fixture
def networks(monkeypatch):
    """Return a list to which each network that is compiled is added."""
    made = []
    first = TensorNetwork.__init__

    def init(self, *args):
        first(self, *args)
        made.append(self)

    monkeypatch.setattr(TensorNetwork, "__init__", init)
    return made


class Steps(nn.Module):
    """Enough operators for a network."""

    def forward(self, x):
        return (x.softmax(-1) + 1).tanh().cumsum(0) * 2


def called(fast, model, rows):
    x = torch.randn(rows, 3)
    torch._dynamo.mark_dynamic(x, 0)
    torch.testing.assert_close(fast(x), model(x))


def by_dynamo(model):
    return torch.compile(model, backend=autotune.torch.backend, dynamic=True)


def test_after_eight_sets_of_shapes_a_further_one_is_compiled_when_it_comes_again(
    networks, caplog
):
    model = Steps()
    fast = by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for rows in range(2, 10):
            called(fast, model, rows)
        assert len(networks) == 8
        assert not caplog.records
        called(fast, model, 10)
        called(fast, model, 11)
        assert len(networks) == 8
        called(fast, model, 10)
        assert len(networks) == 9
        called(fast, model, 10)
        called(fast, model, 5)
        assert len(networks) == 9
    assert len(caplog.records) == 1
    assert "torch runs each further one until it has come again" in caplog.text


def test_with_sixteen_networks_a_set_of_shapes_is_compiled_at_its_third_call(networks):
    model = Steps()
    fast = by_dynamo(model)
    with torch.no_grad():
        for rows in range(2, 18):
            called(fast, model, rows)
            called(fast, model, rows)
        assert len(networks) == 16
        for expected in (16, 16, 17, 17):
            called(fast, model, 20)
            assert len(networks) == expected


def test_layers_that_share_a_graph_are_all_compiled_at_once(networks):
    layers = [nn.Sequential(nn.Linear(3, 3), Steps()).eval() for _ in range(10)]

    @torch.compile(backend=autotune.torch.backend)
    def run(layer, x):
        return layer(x)

    with torch.no_grad():
        for layer in layers:
            x = torch.randn(2, 3)
            torch.testing.assert_close(run(layer, x), layer(x))
    assert len(networks) == 10


def test_layers_that_share_a_graph_do_not_count_calls_for_each_other(networks):
    layers = [nn.Sequential(nn.Linear(3, 3), Steps()).eval() for _ in range(2)]

    @torch.compile(backend=autotune.torch.backend, dynamic=True)
    def run(layer, x):
        return layer(x)

    with torch.no_grad():
        for rows in range(2, 12):
            for layer in layers:
                called(lambda x, layer=layer: run(layer, x), layer, rows)
        assert len(networks) == 16


def test_written_parameters_of_many_networks_are_noticed_by_the_next_call(networks):
    model = nn.Sequential(nn.Linear(3, 3), Steps()).eval()
    fast = by_dynamo(model)
    with torch.no_grad():
        for rows in [*range(2, 10), 10, 10]:
            called(fast, model, rows)
        assert len(networks) == 9
        model[0].weight.add_(1)
        called(fast, model, 10)
    assert len(networks) == 10


class Scaled(nn.Module):
    """Dynamo passes the float as a tensor."""

    def forward(self, x, scale):
        return ((x * scale).softmax(-1) + 1).tanh().cumsum(0) * 2


def test_many_numbers_are_not_taken_for_many_shapes_nor_these_for_those(networks, caplog):
    fast = by_dynamo(Scaled())
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for rows in [*range(2, 10), 10, 10]:
            called(lambda x: fast(x, 0.25), lambda x: Scaled()(x, 0.25), rows)
        assert len(networks) == 9
        assert "numbers" not in caplog.text
        caplog.clear()
        for each in range(8):
            x = torch.randn(4, 3)
            torch.testing.assert_close(fast(x, each + 0.5), Scaled()(x, each + 0.5))
        assert len(networks) == 16
    assert len(caplog.records) == 1
    assert "numbers that it takes differ from call to call" in caplog.text
