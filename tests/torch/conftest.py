"""What the tests of models of PyTorch share: a dynamo that knows no graphs, networks counted."""

import pytest

from autotune.torch.tensor_network import TensorNetwork


@pytest.fixture(autouse=True)
def fresh():
    """Have each test compile anew, and draw the same weights."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    torch.manual_seed(0)


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
