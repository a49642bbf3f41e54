"""Models of PyTorch as compiled networks: `torch.compile` and `autotune.torch.compile`."""

import importlib
import importlib.metadata as metadata
import logging
import threading

import pytest

import autotune
from autotune.errors import GraphError, KernelError
from autotune.importers.pytorch.call import CONVERTERS

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


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


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


# ---- torch.compile


def test_each_shape_is_compiled_and_right():
    model = Small().eval()
    fast = by_dynamo(model)
    with torch.no_grad():
        for rows in (1, 2, 3, 5, 2, 1):
            x = torch.randn(rows, 6)
            same(fast(x), model(x))


def test_shapes_that_are_marked_as_dynamic_are_compiled_one_by_one(caplog):
    model = Small().eval()
    fast = by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for rows in (3, 5, 3):
            x = torch.randn(rows, 6)
            torch._dynamo.mark_dynamic(x, 0)
            same(fast(x), model(x))
    assert not [each for each in caplog.records if each.name == "autotune"]


def test_modes_of_inductor_are_refused():
    with pytest.raises(Exception, match="mode must be left out, got 'reduce-overhead'"):
        by_dynamo(Small().eval(), mode="reduce-overhead")(torch.randn(2, 6))


def test_two_models_of_one_class_keep_their_weights():
    first, second, x = Small(1).eval(), Small(2).eval(), torch.randn(2, 6)

    @torch.compile(backend=autotune.torch.backend)
    def both(model, x):
        return model(x)

    with torch.no_grad():
        for _ in range(2):
            same(both(first, x), first(x))
            same(both(second, x), second(x))


def test_an_operator_that_is_missing_runs_by_torch_after_one_warning(caplog):
    class Cumulated(nn.Module):
        def forward(self, x):
            return torch.i0(x * 2) + 1

    model, x = Cumulated().eval(), torch.randn(3, 4)
    fast = by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for _ in range(3):
            same(fast(x), model(x))
    told = [each.getMessage() for each in caplog.records if each.name == "autotune"]
    assert len(told) == 1
    assert "aten.i0.default (1)" in told[0]


def test_a_bug_of_the_importer_ends_no_model(caplog, monkeypatch):
    def faulty(call, x):
        raise KeyError("no such place")

    monkeypatch.setitem(CONVERTERS, "sinh", faulty)
    fast, x = by_dynamo(torch.sinh), torch.randn(3, 4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        same(fast(x), torch.sinh(x))
        same(fast(x), torch.sinh(x))
    (told,) = [each.getMessage() for each in caplog.records if each.name == "autotune"]
    assert "KeyError: 'no such place'; this is a bug of autotune" in told


def test_random_numbers_are_drawn_at_each_call():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(4)

    x = torch.zeros(4)
    fast = by_dynamo(Noisy().eval())
    with torch.no_grad():
        assert not torch.equal(fast(x), fast(x))


def test_autocast_casts_as_torch_does():
    model, x = Small().eval(), torch.randn(2, 6)
    fast = by_dynamo(model)
    with torch.no_grad():
        same(fast(x), model(x))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = fast(x), model(x)
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=0.05, atol=0.05)


def test_regions_of_autocast_are_cast_as_torch_does(caplog):
    class Regions(Small):
        def forward(self, x):
            y = self.up(x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = torch.tanh(self.down(y) + 1)
                with torch.autocast("cpu", enabled=False):
                    z = self.up(y.float())
                y = self.up(y)
            return y * 2, z

    model, x = Regions().eval(), torch.randn(2, 6)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for got, want in zip(by_dynamo(model)(x), model(x), strict=True):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want, rtol=0.05, atol=0.05)
    assert not [each for each in caplog.records if each.name == "autotune"]


def test_regions_of_autocast_end_where_a_graph_cannot_be_exported(caplog):
    @torch.compiler.allow_in_graph
    def refused(x):
        if torch.compiler.is_exporting():
            raise RuntimeError("refused")
        return x + 1

    def model(x):
        y = x @ x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return y, refused(y @ x)

    x = torch.randn(4, 4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        same(by_dynamo(model)(x), model(x))
    assert "refused" in caplog.text


def test_breaks_of_the_graph_are_run_between_networks():
    class Broken(Small):
        def forward(self, x):
            y = super().forward(x)
            torch._dynamo.graph_break()
            return super().forward(y) * 2

    model, x = Broken().eval(), torch.randn(2, 6)
    with torch.no_grad():
        same(by_dynamo(model)(x), model(x))


def test_gradients_are_torchs_and_said_once(caplog):
    model, x = Small().eval(), torch.randn(2, 6)
    fast = by_dynamo(model)
    with caplog.at_level(logging.WARNING, "autotune"):
        fast(x).square().sum().backward()
    got = model.up.weight.grad.clone()
    model.up.weight.grad = None
    model(x).square().sum().backward()
    same(got, model.up.weight.grad)
    assert "call the model under torch.no_grad()" in caplog.text
    with torch.no_grad():
        same(fast(x), model(x))
    with torch.inference_mode():
        same(fast(x), model(x))


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


def test_the_backend_has_an_entry_point():
    from importlib.metadata import entry_points

    found = [
        each for each in entry_points(group="torch_dynamo_backends") if each.name == "autotune"
    ]
    if not found:
        pytest.skip("autotune was installed before it had this backend")
    assert found[0].load() is autotune.torch.backend


def test_a_tree_without_entry_points_names_the_backend_itself(monkeypatch):
    registry = torch._dynamo.backends.registry
    for names in (registry._BACKENDS, registry._COMPILER_FNS):
        monkeypatch.delitem(names, "autotune", raising=False)
    found = {each.name: each for each in metadata.entry_points(group="torch_dynamo_backends")}
    found.pop("autotune", None)
    none = metadata.EntryPoints(found.values())
    monkeypatch.setattr(metadata, "entry_points", lambda **_: none)
    module = importlib.import_module("autotune.torch.backend")
    monkeypatch.setattr(module, "entry_points", metadata.entry_points)
    importlib.reload(autotune.torch)
    double = torch.compile(lambda x: x + x, backend="autotune")
    assert double(torch.ones(3)).tolist() == [2, 2, 2]
    assert registry._COMPILER_FNS["autotune"] is autotune.torch.backend


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


def test_graphs_that_compute_nothing_are_left_to_torch_without_a_word(caplog):
    model, x = Small().eval(), torch.randn(12)

    def broken(x):
        y = x.view(2, -1)
        torch._dynamo.graph_break()
        return model(y), y[:0] * 2

    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for got, want in zip(by_dynamo(broken)(x), broken(x), strict=True):
            same(got, want)
        assert by_dynamo(nn.Linear(6, 4))(torch.empty(0, 6)).shape == (0, 4)
    assert not caplog.records


def test_a_second_input_that_is_not_in_a_tuple_is_refused():
    with pytest.raises(KernelError, match=r"example_kwargs must be a dict.*got 'Tensor'"):
        autotune.torch.compile(Small().eval(), torch.ones(2, 6), torch.ones(2, 6))


def test_shifts_by_more_places_than_there_are_leave_no_bit():
    def shifts(*data):
        return [each << places.to(each.dtype) for each in data] + [
            each >> places.to(each.dtype) for each in data
        ]

    places = torch.tensor([0, 1, 7, 8, 31, 32, 63, 64, 100, -1])
    numbers = torch.tensor([-128, -7, 0, 5, 127])[:, None]
    data = [numbers.to(each) for each in (torch.uint8, torch.int8, torch.int32, torch.int64)]
    for got, want in zip(by_dynamo(shifts)(*data), shifts(*data), strict=True):
        assert torch.equal(got, want)
