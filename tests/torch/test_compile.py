"""Models of PyTorch as compiled networks: both ways of compiling, and `autotune.torch.compile`."""

import logging
import threading

import pytest

import autotune
from autotune.errors import GraphError, KernelError

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


class Small(nn.Module):
    """Two layers and a norm."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.up, self.down = nn.Linear(6, 16), nn.Linear(16, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def by_dynamo(model, **options):
    return torch.compile(model, backend=autotune.torch.backend, **options)


BOTH = {
    "compile": lambda model, x: autotune.torch.compile(model, x),
    "dynamo": lambda model, x: by_dynamo(model),
}


@pytest.mark.parametrize("way", BOTH)
def test_results_are_those_of_the_model_and_stay(way):
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        first = fast(x)
        second = fast(x * 2)
        same(first, model(x))
        same(second, model(x * 2))
    assert not first.requires_grad


@pytest.mark.parametrize("way", BOTH)
def test_results_have_the_strides_that_torch_gives_them(way):
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)

        def forward(self, x):
            y = self.layer(x)
            return y.relu(), (y + 1)[:, ::2], y.flatten(2).softmax(-1).transpose(1, 2)

    model = Images().eval()
    x = torch.randn(2, 4, 5, 5).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        for got, want in zip(BOTH[way](model, x)(x), model(x), strict=True):
            same(got, want)
            assert got.stride() == want.stride()


@pytest.mark.parametrize("way", BOTH)
def test_inputs_that_are_views_are_read_right(way):
    model = Small().eval()
    wide = torch.randn(6, 9)
    x = wide.t()[1:3]
    with torch.no_grad():
        fast = BOTH[way](model, x)
        same(fast(x), model(x))
        wide.mul_(3)
        same(fast(x), model(x))


@pytest.mark.parametrize("way", BOTH)
def test_weights_that_are_written_count_from_the_next_call_on(way):
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        fast(x)
        model.up.weight.mul_(2)
        same(fast(x), model(x))
        model.load_state_dict(Small(7).state_dict())
        same(fast(x), model(x))
        model.down.bias.data = torch.ones(6)
        same(fast(x), model(x))


@pytest.mark.parametrize("way", BOTH)
def test_steps_of_an_optimiser_count(way):
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        fast(x)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    model(x).square().sum().backward()
    optimiser.step()
    with torch.no_grad():
        same(fast(x), model(x))


def test_threads_share_a_compiled_model():
    model, x = Small().eval(), torch.randn(2, 6)
    fast = autotune.torch.compile(model, x)
    inputs = [torch.randn(2, 6) for _ in range(4)]
    found = [None] * 4

    def run(i):
        for _ in range(50):
            found[i] = fast(inputs[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with torch.no_grad():
        for given, got in zip(inputs, found, strict=True):
            same(got, model(given))


# ---- autotune.torch.compile


def test_a_compiled_model_has_the_models_signature():
    class Named(nn.Module):
        def forward(self, a, *, scale=None):
            return {"scaled": a * scale, "none": None, "pair": [a + 1, 5]}

    a, scale = torch.randn(2, 3), torch.randn(3)
    fast = autotune.torch.compile(Named().eval(), (a,), {"scale": scale})
    found = fast(a, scale=scale)
    same(found["scaled"], a * scale)
    same(found["pair"][0], a + 1)
    assert found["none"] is None
    assert found["pair"][1] == 5


def test_a_tensor_of_another_shape_dtype_or_number_is_refused():
    fast = autotune.torch.compile(Small().eval(), torch.randn(2, 6))
    with pytest.raises(
        KernelError, match=r"input 0 must be torch.float32 \(2, 6\) on cpu.*\(3, 6\)"
    ):
        fast(torch.randn(3, 6))
    with pytest.raises(KernelError, match=r"got torch.float64"):
        fast(torch.randn(2, 6).double())
    with pytest.raises(KernelError, match=r"expected 1 tensors, got 2"):
        fast(torch.randn(2, 6), torch.randn(2, 6))


def test_a_model_that_cannot_be_imported_is_refused_by_compile():
    class Cumulated(nn.Module):
        def forward(self, x):
            return torch.i0(x)

    with pytest.raises(GraphError, match=r"aten\.i0\.default \(1\)"):
        autotune.torch.compile(Cumulated().eval(), torch.randn(4))


def test_a_model_is_tuned_within_seconds_and_its_log_used_again(tmp_path):
    model, x, log = Small().eval(), torch.randn(2, 6), tmp_path / "small.log"
    tuned = autotune.torch.compile(model, x, tune=1, log=log)
    assert log.exists()
    again = autotune.torch.compile(model, x, log=log)
    with torch.no_grad():
        same(tuned(x), model(x))
        same(again(x), model(x))


def test_a_log_that_is_not_there_is_told(tmp_path, caplog):
    autotune.torch.compile(Small().eval(), torch.randn(2, 6), log=tmp_path / "typo.log")
    assert "typo.log; the model runs untuned" in caplog.text


def test_options_are_checked():
    x = torch.randn(2, 6)
    with pytest.raises(KernelError, match="log must be a path where tune is given"):
        autotune.torch.compile(Small().eval(), x, tune=5)
    with pytest.raises(KernelError, match=r"tune must be a number"):
        autotune.torch.compile(Small().eval(), x, tune="long", log="a.log")
    with pytest.raises(Exception, match=r"tune"), torch.no_grad():
        by_dynamo(Small().eval(), options={"mode": "fast"})(x)


@pytest.mark.parametrize("way", BOTH)
def test_results_that_are_views_of_inputs_stay_views(way):
    class Viewed(nn.Module):
        def forward(self, x):
            return x[1:], x * 2, x

    model, x = Viewed().eval(), torch.randn(3, 4)
    with torch.no_grad():
        part, twice, whole = BOTH[way](model, x)(x)
        same(twice, x * 2)
        x.zero_()
    assert [bool(each.any()) for each in (part, twice, whole)] == [False, True, False]


# ---- memory that is shared


@pytest.mark.parametrize("way", BOTH)
def test_results_that_are_views_of_an_input_have_its_numbers_wherever_it_lies(way):
    class Views(nn.Module):
        def forward(self, a):
            return a[1], a.t(), a, a + 1

    model = Views().eval()
    wide = torch.randn(8, 10)
    with torch.no_grad():
        fast = BOTH[way](model, wide[:4, :5].clone())
        for given in (
            wide[:4, :5].clone(),
            wide[2:6, 3:8],
            torch.randn(7, 5)[3:],
            wide.t()[1:5, :5],
        ):
            for found, expected in zip(fast(given), model(given), strict=True):
                same(found, expected)


def test_inputs_that_share_memory_as_examples_are_different_inputs():
    class Two(nn.Module):
        def forward(self, a, b):
            return a - b, a.t(), b[0]

    model, both = Two().eval(), torch.randn(2, 3, 4)
    others = torch.randn(3, 4), torch.randn(3, 4)
    for examples in ((both[0], both[0]), (both[0], both[1])):
        fast = autotune.torch.compile(model, examples)
        for given in (others, (others[0], others[0]), (both[1], both[0])):
            for found, expected in zip(fast(*given), model(*given), strict=True):
                same(found, expected)


def test_an_output_that_nothing_computes_here_is_a_missing_operator(caplog):
    class Kept(nn.Module):
        def forward(self, x):
            return torch.native_dropout(x * 2, 0.5, False)

    model, x = Kept().eval(), torch.randn(1, 2, 4, 4)
    with pytest.raises(GraphError, match=r"native_dropout.default, its result 1 \(1\)"):
        autotune.torch.compile(model, x)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        found = by_dynamo(model)(x)
    assert "torch runs a graph" in caplog.text
    for each, expected in zip(found, model(x), strict=True):
        same(each, expected)


def test_a_second_input_that_is_not_in_a_tuple_is_refused():
    with pytest.raises(KernelError, match=r"example_kwargs must be a dict.*got 'Tensor'"):
        autotune.torch.compile(Small().eval(), torch.ones(2, 6), torch.ones(2, 6))
