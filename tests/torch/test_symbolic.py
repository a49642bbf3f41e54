"""Graphs of dynamo that are traced once for many sets of shapes."""

import copy

import pytest

import autotune
from autotune.importers import SymbolicProgram, memory_of

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def exports(monkeypatch):
    """Return a list to which each export is added, with the sizes that are to be symbols."""
    made = []
    export = torch.export.export

    def counted(*args, **kwargs):
        made.append(kwargs.get("dynamic_shapes"))
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", counted)
    return made


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def compiled(model, **options):
    return torch.compile(model, backend=autotune.torch.backend, **options)


class Attention(nn.Module):
    """Reads a cache that grows, and returns the new one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.back = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x, keys, values):
        query, key, value = self.into(x).chunk(3, -1)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        found = nn.functional.scaled_dot_product_attention(query, keys, values)
        return x + self.back(found), keys, values


def test_a_cache_that_grows_is_traced_once_with_a_fixed_and_once_with_a_symbolic_length(exports):
    model = Attention().eval()
    fast = compiled(model)
    with torch.no_grad():
        state = torch.randn(2, 1, 3, 8)
        for _ in range(5):
            x = torch.randn(1, 1, 8)
            got, *grown = fast(x, *state)
            same((got, *grown), model(x, *state))
            state = grown
    assert len(exports) == 2
    assert exports[0] is None
    assert exports[1] is not None


def test_networks_of_other_shapes_are_as_if_they_were_traced_for_them():
    """Sizes as results, views of inputs, writes, and results that share memory."""

    def run(x, y):
        y.add_(1)
        z = (x @ y).softmax(-1).cumsum(0).tanh() * x.shape[0]
        return z, z[1:], x.mT, y.shape[1] + 1

    fast = compiled(run, dynamic=True)
    with torch.no_grad():
        for rows, columns in ((3, 4), (5, 4), (5, 7), (3, 7)):
            x, y = torch.randn(rows, 6), torch.randn(6, columns)
            copies = x.clone(), y.clone()
            got, want = fast(x, y), run(*copies)
            same(got[:3], want[:3])
            same(y, copies[1])
            assert got[3] == want[3]
            assert got[1].stride() == want[1].stride()
            assert got[1].untyped_storage().data_ptr() == got[0].untyped_storage().data_ptr()
            assert got[2].data_ptr() == x.data_ptr()


class Counting(nn.Module):
    """Adds up what it returned in a buffer."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x):
        y = self.into(x).tanh().softmax(-1)
        self.total.add_(y.sum(0))
        return y * self.total


def test_a_model_that_writes_to_its_buffers_is_traced_once(exports):
    model = Counting().eval()
    alone = copy.deepcopy(model)
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (3, 4, 5):
            same(fast(x := torch.randn(rows, 8)), alone(x))
            same(model.total, alone.total)
    assert len(exports) == 1


def test_inputs_with_other_strides_get_a_program_of_their_own():
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6)).eval()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (3, 4, 5):
            same(fast(x := torch.randn(rows, 6)), model(x))
            same(fast(x := torch.randn(6, rows).T), model(x))
            same(fast(x := torch.randn(rows, 12)[:, ::2]), model(x))


@pytest.fixture
def branching():
    """Return an operator whose definition does something else for many rows."""
    with torch.library._scoped_library("autotune_branch", "DEF") as library:
        library.define("run(Tensor x) -> Tensor")
        library.impl(
            "run", lambda x: x * 2 if x.shape[0] > 4 else x - 1, "CompositeImplicitAutograd"
        )
        yield torch.ops.autotune_branch.run


def test_what_is_done_for_some_sizes_only_is_not_done_for_others(branching, exports):
    def run(x):
        return (branching(x).softmax(-1) + 1).tanh().cumsum(0) * 2

    fast = compiled(run, dynamic=True)
    with torch.no_grad():
        for rows in (3, 6, 4, 7, 2, 8):
            same(fast(x := torch.randn(rows, 5)), run(x))
    assert len(exports) == 2


def test_sizes_that_depend_on_numbers_are_traced_for_each_set_of_shapes(exports):
    def run(x):
        return (x[x[:, 0] > 0].softmax(-1) + 1).tanh(), (x.softmax(-1) + 1).tanh().cumsum(0)

    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        fast = compiled(run, dynamic=True)
        with torch.no_grad():
            for rows in (6, 7, 8):
                same(fast(x := torch.randn(rows, 3)), run(x))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False
    assert sum(each is not None for each in exports) <= 1


def test_an_autocast_region_is_the_callers_own_when_shapes_change():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).eval()
    fast = compiled(model, dynamic=True)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for rows in (3, 4, 5):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fast(x), model(x), rtol=2e-2, atol=2e-2)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8)).eval()


def test_networks_of_several_shapes_share_weights_and_what_is_made_of_them(networks):
    model = layers()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (3, 4):
            same(fast(x := torch.randn(rows, 8)), model(x))
    one, two = (set(each.network.plan.constants) for each in networks)
    assert one == two
    assert any(each.node is not None for each in one)  # such as weights that are laid out ahead


def test_a_further_shape_reads_weights_as_they_are_by_then(networks):
    model = layers()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (3, 4):
            same(fast(x := torch.randn(rows, 8)), model(x))
        model[0].weight.mul_(2)
        for rows in (5, 3, 4):
            same(fast(x := torch.randn(rows, 8)), model(x))
    assert len(networks) == 5


def test_results_of_other_sizes_lie_as_those_of_a_run_and_share_memory_as_traced():
    class Views(nn.Module):
        def forward(self, x, y):
            both = torch.cat([x, y.mT], 0)
            first, *_ = both.split(x.shape[0])
            rows = torch.arange(x.shape[0]).unsqueeze(1)
            return first.mT.unsqueeze(0), both.view(-1)[3:].clone(), x[1:], (x + rows).amax(0)

    dim = torch.export.Dim.AUTO
    sizes = ([dim, None], [None, dim])
    program = torch.export.export(
        Views(), (torch.randn(3, 4), torch.randn(4, 6)), dynamic_shapes=sizes
    )
    given = torch.randn(5, 4), torch.randn(4, 7)
    fixed = SymbolicProgram(program).at(given)

    class Compared(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            found = result if node.op == "output" else node.meta.get("val")
            for made, want in zip(several(found), several(result), strict=True):
                if isinstance(want, torch.Tensor):
                    assert (made.shape, made.stride()) == (want.shape, want.stride())
                    assert (made.dtype, made.device) == (want.dtype, want.device)
            return result

    def several(each):
        return each if isinstance(each, (list, tuple)) else [each]

    Compared(fixed.graph_module, graph=fixed.graph).run(*given)
    traced = {node.name: node.meta.get("val") for node in program.graph.nodes}
    pairs = {
        (memory_of(made), memory_of(was))
        for node in fixed.graph.nodes
        for made, was in zip(
            several(node.meta.get("val")), several(traced[node.name]), strict=True
        )
        if isinstance(made, torch.Tensor)
    }
    assert 5 < len(pairs) == len({made for made, _ in pairs}) == len({was for _, was in pairs})
