"""What networks of one model have in common: weights, choices, kernels."""

import gc
import weakref

import pytest

import autotune
from autotune.network import choice

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(nn.Module):
    """Has a function of weights alone, which is the same for all numbers of rows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.back = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x, state):
        state = self.back(self.into(state).tanh())
        return (x + state).softmax(0), state


def called(fast, model, rows):
    x, state = torch.randn(rows, 8), torch.randn(1, 8)
    torch.testing.assert_close(fast(x, state), model(x, state), rtol=1e-5, atol=1e-5)


def test_the_graph_of_fixed_shapes_and_that_of_symbols_have_weights_once(networks):
    model = Model().eval()
    fast = torch.compile(model, backend=autotune.torch.backend)
    with torch.no_grad():
        for rows in (3, 4, 5):
            called(fast, model, rows)
    first, *others = (set(each.network.plan.constants) for each in networks)
    assert first
    assert others == [first, first]


def test_functions_without_a_changed_size_are_neither_chosen_nor_compiled_again(
    networks, monkeypatch
):
    asked = []
    offers = choice.offers_of

    def counted(function, target):
        asked.append(function)
        return offers(function, target)

    model = Model().eval()
    fast = torch.compile(model, backend=autotune.torch.backend, dynamic=True)
    with torch.no_grad():
        called(fast, model, 3)  # which loads the records that ship
        called(fast, model, 4)
        monkeypatch.setattr(choice, "offers_of", counted)
        called(fast, model, 5)
    names = [each.name for each in asked]
    assert any("softmax" in each for each in names)
    assert not any("dense" in each for each in names)
    _, one, two = (each.network.modules for each in networks)
    assert sum(each in one for each in two) >= 2


def test_kernels_stay_when_parameters_are_written(networks):
    model = Model().eval()
    fast = torch.compile(model, backend=autotune.torch.backend)
    with torch.no_grad():
        called(fast, model, 3)
        model.into.weight.mul_(2)
        called(fast, model, 3)
    one, two = (each.network for each in networks)
    assert one.modules == two.modules
    assert not set(one.plan.constants) & set(two.plan.constants)


def test_nothing_stays_of_a_compiled_model_that_is_gone(networks):
    def run():
        model = Model().eval()
        fast = torch.compile(model, backend=autotune.torch.backend)
        with torch.no_grad():
            for rows in (3, 4, 5):
                called(fast, model, rows)
        for each in networks:
            network = each.network
            left.extend(map(weakref.ref, (each, *network.modules, *network.plan.constants)))
        left.append(weakref.ref(model.into.weight))

    left = []
    run()
    networks.clear()
    torch._dynamo.reset()
    gc.collect()
    assert not [found for each in left if (found := each()) is not None]
