"""The backend of `torch.compile`: shapes, graphs that break, autocast, what torch runs itself."""

import importlib
import importlib.metadata as metadata
import logging

import pytest

import autotune
from autotune.importers.pytorch.call import CONVERTERS
from tests.torch.test_compile import Small, by_dynamo, same

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


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
