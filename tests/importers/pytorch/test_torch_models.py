"""Whole models of PyTorch, in each of the forms in which they come, and what is refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.errors import GraphError  # noqa: E402
from autotune.graph import ops  # noqa: E402
from autotune.importers import from_pytorch  # noqa: E402
from autotune.network import compile_network  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


class Images(nn.Module):
    """Convolutions, a norm, pooling, dropout and a product, with statistics that show."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, groups=8)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = F.max_pool2d(F.hardswish(self.second(x)), 2)
        return self.last(self.drop(x.mean((2, 3))))


class Tokens(nn.Module):
    """A block of a transformer over embeddings, with positions and torch's own attention."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 16), nn.Embedding(7, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm(x))))


def image():
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


def images():
    torch.manual_seed(0)
    return Images().eval()


@pytest.mark.many_cases
@pytest.mark.parametrize("form", ["module", "traced", "scripted", "exported"])
def test_a_model_is_the_same_network_in_every_form(form):
    model, x = images(), image()
    given = {
        "module": lambda: model,
        "traced": lambda: torch.jit.trace(model, x),
        "scripted": lambda: torch.jit.script(model),
        "exported": lambda: torch.export.export(model, (x,)),
    }[form]()
    graph = from_pytorch(given, x).graph
    with torch.no_grad():
        want = model.double()(x.double()).numpy()
    np.testing.assert_allclose(graph.run(x.numpy())[0], want, rtol=1e-6, atol=1e-6)
    assert not any(isinstance(node.op, ops.Dropout) for node in graph.nodes)


def test_scripts_run_branches_and_loops_as_for_the_example():
    @torch.jit.script
    def looped(x: torch.Tensor, times: int):
        for i in range(times):
            if i % 2 == 0:
                x = x * 2
            else:
                x = x + float(i)
                x = x - 1
        parts = torch.split(x, [1, 2], dim=0)
        return parts[0], parts[1]

    class Looped(nn.Module):
        def forward(self, x):
            return looped(x, 3)

    x = torch.randn(3, 4)
    graph = from_pytorch(torch.jit.script(Looped().eval()), x).graph
    for got, want in zip(graph.run(x.numpy()), looped(x, 3), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("make", [images, lambda: Tokens().eval()], ids=["images", "tokens"])
def test_models_of_every_float_run_compiled(make, dtype):
    torch.manual_seed(0)
    model = make()
    x = image() if isinstance(model, Images) else torch.tensor([[1, 5, 2, 9, 10]])
    with torch.no_grad():
        want = model.double()(x.double() if x.is_floating_point() else x).numpy()
    model = model.to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    graph = from_pytorch(model, x).graph
    instance = compile_network(graph, "c").instance()
    instance.set_input(0, x.float().numpy() if x.is_floating_point() else x.numpy())
    instance.run()
    got = instance.outputs[0].numpy().astype("float64")
    allowed = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 5e-2}[dtype]
    assert np.linalg.norm(got - want) < allowed * np.linalg.norm(want)


def test_parameters_are_constants_or_inputs_by_the_names_of_the_model():
    model, x = images(), image()
    frozen = from_pytorch(model, x, input_names=["image"])
    assert [each.name for each in frozen.graph.inputs] == ["image"]
    assert {each.name for each in frozen.graph.constants} >= {"first.weight", "norm.running_var"}
    kept = from_pytorch(model, x, keep_params=True)
    assert {each.name for each in kept.graph.inputs} >= {"x", "first.weight", "last.bias"}
    np.testing.assert_array_equal(kept.params["last.bias"], model.last.bias.detach().numpy())
    np.testing.assert_allclose(
        kept.bound.run(x.numpy())[0], frozen.graph.run(x.numpy())[0], rtol=1e-12
    )


def test_inputs_by_name_and_several_outputs_keep_their_order():
    class Named(nn.Module):
        def forward(self, a, *, scale):
            return {"sum": a + scale, "pair": (a * scale, a - scale)}

    a, scale = torch.randn(2, 3), torch.randn(3)
    graph = from_pytorch(Named().eval(), (a,), {"scale": scale}).graph
    got = graph.run(a.numpy(), scale.numpy())
    for mine, want in zip(got, (a + scale, a * scale, a - scale), strict=True):
        np.testing.assert_allclose(mine, want.numpy(), rtol=1e-6)


def test_a_converter_of_the_caller_goes_before_ours():
    class Rolled(nn.Module):
        def forward(self, x):
            return torch.roll(x, 1, 0) + torch.linalg.det(x)

    def det(call, x):
        return call.apply(ops.Sum(None), x)

    x = torch.randn(3, 3)
    graph = from_pytorch(Rolled().eval(), x, converters={"aten._linalg_det": lambda call, a: [
        det(call, a), None, None]}).graph  # fmt: skip
    want = torch.roll(x, 1, 0) + x.sum()
    np.testing.assert_allclose(graph.run(x.numpy())[0], want.numpy(), rtol=1e-5)


# ---- what is refused


def test_all_operators_that_are_missing_are_listed_with_their_counts():
    class Odd(nn.Module):
        def forward(self, x):
            y = torch.linalg.inv(x) + torch.linalg.inv(x + 1)
            return torch.special.bessel_j0(y) + torch.erfinv(x)

    expected = r"cannot be imported .*aten\.erfinv\.default \(1\).*linalg_inv.*\(2\).*bessel_j0"
    with pytest.raises(GraphError, match=expected):
        from_pytorch(Odd().eval(), torch.rand(3, 3))


def test_a_model_in_training_mode_is_refused():
    with pytest.raises(GraphError, match=r"training mode.*model.eval\(\)"):
        from_pytorch(images().train(), image())


def test_a_model_without_example_inputs_is_refused():
    with pytest.raises(GraphError, match="example_inputs must be given: a tuple of tensors"):
        from_pytorch(images())


def test_what_is_no_model_is_refused():
    with pytest.raises(GraphError, match=r"model must be an nn\.Module, a ScriptModule"):
        from_pytorch("resnet18", image())


def test_a_shape_that_is_known_only_at_run_time_is_refused():
    batch = torch.export.Dim("batch", min=2, max=8)
    program = torch.export.export(images(), (image(),), dynamic_shapes=({0: batch},))
    with pytest.raises(GraphError, match="known only at run time; export the model for one shape"):
        from_pytorch(program)


def test_a_shape_that_depends_on_values_is_refused():
    class Masked(nn.Module):
        def forward(self, x):
            return x[x > 0]

    with pytest.raises(GraphError, match=r"shape must not depend on values|only at"):
        from_pytorch(Masked().eval(), image())


def test_a_model_that_torch_cannot_trace_is_refused_with_torchs_reason():
    class Breaks(nn.Module):
        def forward(self, x):
            raise ValueError("nothing to see")

    with pytest.raises(GraphError, match="cannot export Breaks: ValueError: nothing to see"):
        from_pytorch(Breaks().eval(), image())


def test_an_error_of_the_model_that_says_nothing_is_told_by_its_line():
    class Breaks(nn.Module):
        def forward(self, x):
            raise NotImplementedError

    with pytest.raises(GraphError, match=r"Error: .*models\.py:\d+: raise NotImplementedError"):
        from_pytorch(Breaks().eval(), image())


def test_names_of_inputs_must_be_as_many_as_inputs():
    with pytest.raises(GraphError, match="input_names has 1 names more"):
        from_pytorch(images(), image(), input_names=["a", "b"])
    with pytest.raises(GraphError, match="needs a name for each input"):
        from_pytorch(images(), image(), input_names=[])


def test_random_numbers_are_refused_not_drawn_once():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(8) + torch.randn_like(x)

    with pytest.raises(GraphError, match=r"aten\.rand\.default \(1\), aten\.randn_like"):
        from_pytorch(Noisy().eval(), image())


def test_constants_keep_the_numbers_that_were_read():
    model, x = images(), image()
    graph = from_pytorch(model, x).graph
    (before,) = graph.run(x.numpy())
    with torch.no_grad():
        model.last.weight.zero_()
    np.testing.assert_array_equal(graph.run(x.numpy())[0], before)


def test_long_fourier_transforms_are_refused():
    class Complex(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x).real

    with pytest.raises(GraphError, match="number of points must be at most 2048, got 2049"):
        from_pytorch(Complex().eval(), torch.randn(2, 2049))


# ---- what a model writes


class Cached(nn.Module):
    """Writes its input, a row of a cache, and a counter that says which."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(2, 6, 4))
        self.register_buffer("seen", torch.tensor([0]))

    def forward(self, x):
        x.add_(1)
        self.cache.index_copy_(1, self.seen, self.rows(x))
        self.seen += 1
        return self.cache.sum(1), x * 2


@pytest.mark.parametrize("names", [None, ["row"]])
def test_what_a_model_writes_are_outputs_behind_its_own(names):
    model = Cached().eval()
    network = from_pytorch(model, torch.randn(2, 1, 4), input_names=names)
    given = "x" if names is None else "row"
    assert {each.name for each in network.graph.inputs} == {given, "cache", "seen"}
    assert set(network.state) == {"cache", "seen"}
    state = dict(network.state)
    instance = compile_network(network.graph, "c", over=network.over).instance()
    for _ in range(3):
        x = torch.randn(2, 1, 4)
        every = state | {given: x.numpy()}
        inputs = [every[each.name] for each in network.graph.inputs]
        outputs = [each.numpy() for each in instance(*inputs)]
        for got, want in zip(network.graph.run(*inputs), outputs, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        with torch.no_grad():
            results = model(x)
        for got, want in zip(outputs, results, strict=False):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5)
        new = {name: outputs[number].copy() for name, number in network.writes.items()}
        np.testing.assert_allclose(new.pop(given), x.numpy(), rtol=1e-6)
        for name, want in model.named_buffers():
            np.testing.assert_allclose(new[name], want.numpy(), rtol=1e-5)
        state = new


def test_rows_of_a_buffer_are_stored_in_its_place():
    network = from_pytorch(Cached().eval(), torch.randn(2, 1, 4))
    cache = [each.name for each in network.graph.inputs].index("cache")
    assert network.over[network.writes["cache"]] == cache
    compiled = compile_network(network.graph, "c", over=network.over)
    assert any(step.function.stores_updates for step in compiled.plan.steps)
