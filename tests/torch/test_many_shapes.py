"""Graphs that `torch.compile` calls with ever new shapes."""

import logging

import pytest

import autotune
from autotune.torch.admission import Admission

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def two_at_once(monkeypatch):
    """Compile two sets of shapes at their first call, not eight: each takes a second."""
    monkeypatch.setattr("autotune.torch.admission._AT_ONCE", 2)


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


@pytest.mark.parametrize(
    ("networks", "calls"), [(0, 1), (7, 1), (8, 2), (15, 2), (16, 3), (24, 4)]
)
def test_with_sixteen_networks_a_set_of_shapes_is_admitted_at_its_third_call(networks, calls):
    admission = Admission()
    admitted = [admission.admits(networks, lambda: "shapes") for _ in range(calls)]
    assert admitted == [False] * (calls - 1) + [True]


def test_with_twice_as_many_as_at_once_a_set_of_shapes_is_compiled_at_its_third_call(
    networks, two_at_once
):
    model = Steps()
    fast = by_dynamo(model)
    with torch.no_grad():
        for rows in range(2, 6):
            called(fast, model, rows)
            called(fast, model, rows)
        assert len(networks) == 4
        for expected in (4, 4, 5, 5):
            called(fast, model, 20)
            assert len(networks) == expected


def test_layers_that_share_a_graph_are_all_compiled_at_once(networks, two_at_once):
    layers = [nn.Sequential(nn.Linear(3, 3), Steps()).eval() for _ in range(4)]

    @torch.compile(backend=autotune.torch.backend)
    def run(layer, x):
        return layer(x)

    with torch.no_grad():
        for layer in layers:
            x = torch.randn(2, 3)
            torch.testing.assert_close(run(layer, x), layer(x))
    assert len(networks) == 4


def test_layers_that_share_a_graph_do_not_count_calls_for_each_other(networks, two_at_once):
    layers = [nn.Sequential(nn.Linear(3, 3), Steps()).eval() for _ in range(2)]

    @torch.compile(backend=autotune.torch.backend, dynamic=True)
    def run(layer, x):
        return layer(x)

    with torch.no_grad():
        for rows in range(2, 6):
            for layer in layers:
                called(lambda x, layer=layer: run(layer, x), layer, rows)
        assert len(networks) == 4


def test_written_parameters_of_many_networks_are_noticed_by_the_next_call(networks, two_at_once):
    model = nn.Sequential(nn.Linear(3, 3), Steps()).eval()
    fast = by_dynamo(model)
    with torch.no_grad():
        for rows in (2, 3, 4, 4):
            called(fast, model, rows)
        assert len(networks) == 3
        model[0].weight.add_(1)
        called(fast, model, 4)
    assert len(networks) == 4


class Scaled(nn.Module):
    """Dynamo passes the float as a tensor."""

    def forward(self, x, scale):
        return ((x * scale).softmax(-1) + 1).tanh().cumsum(0) * 2


def test_many_numbers_are_not_taken_for_many_shapes_nor_these_for_those(
    networks, two_at_once, caplog
):
    fast = by_dynamo(Scaled())
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for rows in (2, 3, 4, 4):
            called(lambda x: fast(x, 0.25), lambda x: Scaled()(x, 0.25), rows)
        assert len(networks) == 3
        assert "numbers" not in caplog.text
        caplog.clear()
        for each in range(8):
            x = torch.randn(4, 3)
            torch.testing.assert_close(fast(x, each + 0.5), Scaled()(x, each + 0.5))
        assert len(networks) == 10
    assert len(caplog.records) == 1
    assert "numbers that it takes differ from call to call" in caplog.text
