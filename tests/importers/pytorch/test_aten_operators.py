"""Every family of ATen operators, imported, against PyTorch in float64."""

import functools
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.errors import GraphError  # noqa: E402
from autotune.importers import from_pytorch  # noqa: E402

F = torch.nn.functional


def t(*shape, seed=0):
    """Return numbers of both signs."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def whole(high, *shape, seed=1):
    """Return whole numbers from 0 on."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, size=shape))


class Module(torch.nn.Module):
    """Functions as one module, each with its own inputs; torch exports fifty as fast as one."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *args):
        given, results = iter(args), []
        for function, *own in self.cases:
            results += outputs(function(*[next(given) for _ in own]))
        return tuple(results)


def outputs(result):
    """Return the outputs of a function, of which there are one or several."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(cases):
    """Import functions of tensors, run their graph in numpy; return pairs of outputs for each."""
    args = [each for _, *own in cases for each in own]
    graph = from_pytorch(Module(cases).eval(), tuple(args)).graph
    want = [outputs(function(*[each.clone() for each in own])) for function, *own in cases]
    got = graph.run(*[each.numpy() for each in args])
    assert len(got) == sum(map(len, want))
    mine = iter(got)
    return [[(next(mine), each.numpy()) for each in results] for results in want]


def compare(pairs, rtol=1e-9):
    """Compare the outputs of a function with those of torch."""
    for mine, theirs in pairs:
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-9)


def check(function, *args, rtol=1e-9):
    """Import a function of tensors, run its graph in numpy, and compare."""
    check_each((function, *args), rtol=rtol)


def check_each(*cases, rtol=1e-9):
    """Import functions with their inputs as one program, and compare each."""
    for pairs in run(cases):
        compare(pairs, rtol)


class Family:
    """Functions with their inputs by name, which are imported together when one is checked."""

    def __init__(self, cases):
        self.cases = cases

    @functools.cached_property
    def results(self):
        """The outputs by name; none if the functions cannot be imported together."""
        try:
            return dict(zip(self.cases, run(list(self.cases.values())), strict=True))
        except Exception:  # which one it is, is found alone
            return {}

    def check(self, name, rtol=1e-9):
        """Compare one of them."""
        compare(self.results.get(name) or run([self.cases[name]])[0], rtol)


ARITHMETIC = {
    "add with alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub of a number": lambda x, y: 2 - x,
    "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
    "mul by a number": lambda x, y: x * 3,
    "div": lambda x, y: x / (y.abs() + 1),
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": lambda x, y: torch.remainder(x, y),
    "fmod": lambda x, y: torch.fmod(x, y),
    "pow 2": lambda x, y: x**2,
    "pow 5": lambda x, y: x**5,
    "pow -3": lambda x, y: x**-3,
    "pow 0.5": lambda x, y: x.abs() ** 0.5,
    "pow 2.5": lambda x, y: x.abs() ** 2.5,
    "2 to a power": lambda x, y: 2.0**x,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "comparisons": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "comparison with a number": lambda x, y: x > 0.25,
    "truth values": lambda x, y: (
        (x > 0) & (y > 0),
        (x > 0) | (y > 0),
        ~(x > 0),
        (x > 0) ^ (y > 0),
    ),
    "where": lambda x, y: torch.where(x > y, x, 0.0),
    "where of numbers": lambda x, y: torch.where(x > y, 1.5, 0.5).double(),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -1e9),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
    "clamp": lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp_max(0.2)),
    "clamp by a tensor": lambda x, y: torch.clamp(x, min=y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
}


ARITHMETIC = Family({k: (f, t(3, 4), t(3, 4, seed=5)) for k, f in ARITHMETIC.items()})


@pytest.mark.parametrize("name", ARITHMETIC.cases)
def test_arithmetic_is_what_torch_computes(name):
    ARITHMETIC.check(name)


def test_operands_broadcast_and_promote_as_torch_says():
    check_each(
        (lambda x, y: x + y, t(2, 1, 4), t(3, 1)),
        (lambda x, n: x * n, t(2, 3), whole(5, 3)),
        (lambda n: n / 4, whole(9, 5)),
        (lambda n, m: (n // 3, n % 3, n > m, n + m), whole(99, 7), whole(99, 7, seed=3)),
    )
    check(lambda n: n * 0.5, whole(9, 4), rtol=1e-6)


UNARY = [
    "abs", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "neg", "reciprocal", "relu",
    "sigmoid", "sign", "sin", "square", "tanh", "trunc",
]  # fmt: skip


UNARY = Family({name: (getattr(torch, name), t(4, 5)) for name in UNARY})


@pytest.mark.parametrize("name", UNARY.cases)
def test_functions_of_one_number_are_those_of_torch(name):
    UNARY.check(name)


OF_POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"]
OF_POSITIVE = Family({name: (getattr(torch, name), t(4, 5).abs() + 0.1) for name in OF_POSITIVE})


@pytest.mark.parametrize("name", OF_POSITIVE.cases)
def test_functions_of_positive_numbers_are_those_of_torch(name):
    OF_POSITIVE.check(name)


ACTIVATIONS = [
    F.celu, F.elu, F.gelu, F.hardsigmoid, F.hardswish, F.hardtanh, F.leaky_relu, F.logsigmoid,
    F.mish, F.relu6, F.selu, F.silu, F.softplus, F.softsign, F.tanhshrink, F.hardshrink,
    F.softshrink,
]  # fmt: skip


ACTIVATIONS = Family({each.__name__: (each, t(4, 9) * 3) for each in ACTIVATIONS})


@pytest.mark.parametrize("name", ACTIVATIONS.cases)
def test_activations_are_those_of_torch(name):
    ACTIVATIONS.check(name)


def test_gelu_by_tanh_glu_and_prelu_are_those_of_torch():
    check_each(
        (lambda x: F.gelu(x, approximate="tanh"), t(4, 5)),
        (lambda x: F.glu(x, 1), t(2, 6, 3)),
        (F.prelu, t(2, 3, 4), t(3).abs()),
        (F.prelu, t(2, 3, 4), t(1).abs()),
    )


PRODUCTS = {
    "linear": (lambda x, w, b: F.linear(x, w, b), t(2, 3, 4), t(5, 4), t(5)),
    "linear without bias": (lambda x, w: F.linear(x, w), t(4), t(5, 4)),
    "mm": (torch.mm, t(3, 4), t(4, 5)),
    "bmm": (torch.bmm, t(2, 3, 4), t(2, 4, 5)),
    "matmul broadcasts": (torch.matmul, t(2, 1, 3, 4), t(6, 4, 5)),
    "matmul of vectors": (torch.matmul, t(4), t(4)),
    "matmul by a vector": (torch.matmul, t(2, 3, 4), t(4)),
    "vector by matrices": (torch.matmul, t(4), t(2, 4, 3)),
    "one matrix for all": (torch.matmul, t(3, 4), t(2, 4, 5)),
    "transposed": (lambda a, b: a @ b.transpose(-1, -2), t(2, 3, 4), t(2, 5, 4)),
    "addmm": (lambda x, a, b: torch.addmm(x, a, b, beta=2, alpha=3), t(3, 5), t(3, 4), t(4, 5)),
    "baddbmm": (lambda x, a, b: torch.baddbmm(x, a, b), t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)),
    "einsum": (lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), t(2, 3, 4, 5), t(2, 3, 6, 5)),
    "outer": (lambda a, b: torch.einsum("i,j->ij", a, b), t(3), t(4)),
}


PRODUCTS = Family(PRODUCTS)


@pytest.mark.parametrize("name", PRODUCTS.cases)
def test_products_are_those_of_torch(name):
    PRODUCTS.check(name)


CONVOLUTIONS = {
    "1d": (F.conv1d, (2, 4, 9), (6, 4, 3), {"padding": 1, "stride": 2}),
    "2d": (F.conv2d, (2, 4, 9, 8), (6, 4, 3, 2), {"padding": (1, 0), "stride": (2, 1)}),
    "2d dilated": (F.conv2d, (1, 4, 9, 9), (6, 4, 3, 3), {"dilation": 2, "padding": 2}),
    "2d in groups": (F.conv2d, (1, 4, 7, 7), (6, 2, 3, 3), {"groups": 2}),
    "2d depthwise": (F.conv2d, (1, 4, 7, 7), (4, 1, 3, 3), {"groups": 4, "padding": "same"}),
    "2d even same": (F.conv2d, (1, 4, 7, 7), (4, 4, 4, 2), {"padding": "same"}),
    "2d without a batch": (F.conv2d, (4, 7, 7), (4, 4, 3, 3), {}),
    "3d": (F.conv3d, (1, 2, 5, 6, 7), (4, 2, 3, 3, 3), {"padding": 1}),
    "3d in groups": (F.conv3d, (1, 4, 5, 6, 7), (4, 2, 3, 3, 3), {"groups": 2}),
    "1d transposed": (F.conv_transpose1d, (1, 4, 5), (4, 3, 4), {"stride": 2, "padding": 1}),
    "2d transposed": (
        F.conv_transpose2d, (1, 4, 5, 6), (4, 3, 3, 3),
        {"stride": 2, "padding": 1, "output_padding": 1},
    ),
    "2d transposed in groups": (
        F.conv_transpose2d, (1, 4, 5, 6), (4, 3, 2, 2), {"stride": 2, "groups": 2},
    ),
    "2d transposed and dilated": (
        F.conv_transpose2d, (1, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "dilation": 2},
    ),
    "3d transposed": (F.conv_transpose3d, (1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"stride": 2}),
}  # fmt: skip


def convolution(name):
    """Return a convolution with its inputs."""
    function, data, weight, options = CONVOLUTIONS[name]
    count = weight[0] if "transpose" not in name else weight[1] * options.get("groups", 1)
    return functools.partial(convolve, function, options), t(*data), t(*weight), t(count)


def convolve(function, options, x, w, b):
    return function(x, w, b, **options)


CONVOLUTIONS = Family({name: convolution(name) for name in CONVOLUTIONS})


@pytest.mark.parametrize("name", CONVOLUTIONS.cases)
def test_convolutions_are_those_of_torch(name):
    CONVOLUTIONS.check(name)


NORMS = {
    "batch": (
        lambda x, v, w, b: F.batch_norm(x, b, v, w, b),
        t(2, 4, 5, 5),
        t(4).abs(),
        t(4),
        t(4),
    ),
    "batch without weights": (lambda x, m, v: F.batch_norm(x, m, v), t(2, 4, 5), t(4), t(4).abs()),
    "layer": (lambda x, w, b: F.layer_norm(x, (6,), w, b), t(2, 3, 6), t(6), t(6)),
    "layer over two axes": (lambda x: F.layer_norm(x, (3, 6)), t(2, 3, 6)),
    "group": (lambda x, w, b: F.group_norm(x, 2, w, b), t(2, 4, 5, 5), t(4), t(4)),
    "instance": (lambda x, w: F.instance_norm(x, weight=w, bias=w), t(2, 4, 5, 5), t(4)),
    "rms": (lambda x, w: F.rms_norm(x, (6,), w, 1e-6), t(2, 3, 6), t(6)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(-1)), t(2, 3, 6)),
    "vector norm": (lambda x: (x.norm(dim=1), x.norm(p=1, dim=1), F.normalize(x)), t(3, 6)),
}


NORMS = Family(NORMS)


@pytest.mark.parametrize("name", NORMS.cases)
def test_norms_are_those_of_torch(name):
    NORMS.check(name)


POOLS = {
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), t(2, 3, 9)),
    "max 2d": (lambda x: F.max_pool2d(x, 3, 2, 1), t(2, 3, 9, 8)),
    "max 2d ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), t(2, 3, 8, 8)),
    "max 2d dilated": (lambda x: F.max_pool2d(x, 2, 1, dilation=2), t(2, 3, 8, 8)),
    "max 3d": (lambda x: F.max_pool3d(x, 2, 2), t(1, 2, 4, 6, 6)),
    "avg 1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), t(2, 3, 9)),
    "avg 2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), t(2, 3, 9, 8)),
    "avg 2d ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), t(2, 3, 8, 8)),
    "avg 2d not counting": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), t(2, 3, 9, 8),
    ),
    "avg 2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), t(2, 3, 8, 8)),
    "avg 3d": (lambda x: F.avg_pool3d(x, 2, 2), t(1, 2, 4, 6, 6)),
    "global": (lambda x: F.adaptive_avg_pool2d(x, 1), t(2, 3, 5, 7)),
    "adaptive that divides": (lambda x: F.adaptive_avg_pool2d(x, (2, 4)), t(2, 3, 6, 8)),
    "adaptive that overlaps": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), t(2, 3, 7, 8)),
    "adaptive 1d": (lambda x: F.adaptive_avg_pool1d(x, 3), t(2, 3, 7)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), t(2, 3, 7, 8)),
}  # fmt: skip


POOLS = Family(POOLS)


@pytest.mark.parametrize("name", POOLS.cases)
def test_pooling_is_that_of_torch(name):
    POOLS.check(name)


MOVES = {
    "view": lambda x: x.view(2, -1),
    "flatten": lambda x: x.flatten(1, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, 2),
    "movedim": lambda x: x.movedim(0, 2),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:, :1].expand(2, 4, 6),
    "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "select": lambda x: x[:, -1],
    "slice": lambda x: x[:, 1:4:2, ::3],
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "split": lambda x: x.split([1, 3], 1),
    "chunk": lambda x: x.chunk(3, 2),
    "uneven chunk": lambda x: x.chunk(4, 2),
    "unbind": lambda x: x.unbind(1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
    "pad that cuts": lambda x: F.pad(x, (-1, 2)),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "circular": lambda x: F.pad(x, (2, 1), mode="circular"),
    "roll": lambda x: torch.roll(x, (1, -2), (1, 2)),
    "roll of all": lambda x: torch.roll(x, 5),
    "flip": lambda x: x.flip(0, 2),
    "tril": lambda x: torch.tril(x),
    "triu": lambda x: torch.triu(x, 1),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "diagonal": lambda x: torch.diagonal(x, 1, 1, 2),
    "assigned slice": lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
    "assigned index": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, 2),
    "written places": lambda x: x.clone().index_put((torch.tensor([1, 0]),), x[:2] * 3),
    "as_strided": lambda x: torch.as_strided(x, (2, 3), (6, 2), 1),
    "as_strided of transposed": lambda x: torch.as_strided(
        x.transpose(0, 2) + 1, (2, 3), (6, 2), 1
    ),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
}


MOVES |= {
    "an empty part": lambda x: torch.cat([x[:, :0], x[:, 1:], torch.tensor([])], 1),
    "nothing rotated": lambda x: torch.cat([x[..., :6] * 2, x[..., 6:] + 1], -1),
    "parts behind an empty one": lambda x: torch.split(x, [0, 2, 0, 2], 1)[1] * 2,
    "a sum of nothing": lambda x: x + x[:, 4:].sum(1, keepdim=True),
}
MOVES = Family({name: (function, t(2, 4, 6)) for name, function in MOVES.items()})


@pytest.mark.parametrize("name", MOVES.cases)
def test_moves_of_elements_are_those_of_torch(name):
    MOVES.check(name)


def test_pixels_become_channels_and_channels_pixels_as_in_torch():
    check_each(
        (lambda x: F.pixel_shuffle(x, 2), t(1, 8, 3, 4)),
        (lambda x: F.pixel_unshuffle(x, 2), t(1, 2, 6, 4)),
        (lambda x: F.channel_shuffle(x, 2), t(1, 6, 3, 4)),
        (lambda x: F.unfold(x, 3, padding=1, stride=2), t(1, 2, 6, 6)),
    )


RESIZES = {
    "nearest twice": {"scale_factor": 2, "mode": "nearest"},
    "nearest down": {"size": (3, 5), "mode": "nearest"},
    "nearest exact": {"size": (5, 9), "mode": "nearest-exact"},
    "bilinear": {"size": (9, 11), "mode": "bilinear"},
    "bilinear corners": {"size": (9, 3), "mode": "bilinear", "align_corners": True},
    "bilinear factor": {"scale_factor": 1.7, "mode": "bilinear"},
    "bicubic": {"size": (9, 11), "mode": "bicubic"},
    "bilinear of averages": {"size": (3, 9), "mode": "bilinear", "antialias": True},
    "bicubic of averages": {"size": (4, 3), "mode": "bicubic", "antialias": True},
    "factor of averages": {"scale_factor": 0.6, "mode": "bilinear", "antialias": True},
}


RESIZES = {name: functools.partial(F.interpolate, **each) for name, each in RESIZES.items()}
RESIZES = Family({name: (function, t(1, 2, 6, 7)) for name, function in RESIZES.items()})


@pytest.mark.parametrize("name", RESIZES.cases)
def test_images_in_other_sizes_are_those_of_torch(name):
    RESIZES.check(name)


def test_lines_and_volumes_in_other_sizes_are_those_of_torch():
    check_each(
        (lambda x: F.interpolate(x, size=9, mode="linear"), t(1, 2, 6)),
        (lambda x: F.interpolate(x, size=(3, 4, 5), mode="trilinear"), t(1, 2, 2, 3, 4)),
    )


INDEXING = {
    "embedding": (lambda n, w: F.embedding(n, w), whole(7, 2, 3), t(7, 4)),
    "known places": (lambda x: x[:, torch.tensor([2, 0, -1])], t(2, 4, 3)),
    "two known places": (lambda x: x[torch.tensor([1, 0]), torch.tensor([2, 3])], t(2, 4, 3)),
    "places apart": (lambda x, n: x[n, :, n], t(3, 4, 3), whole(3, 5)),
    "places of the data": (lambda x, n, m: x[:, n, m], t(2, 4, 3), whole(4, 5), whole(3, 5)),
    "negative places": (lambda x, n: x[n - 2], t(4, 3), whole(4, 5)),
    "index_select": (lambda x, n: x.index_select(1, n), t(2, 4), whole(4, 3)),
    "gather": (lambda x, n: x.gather(1, n), t(3, 4, 2), whole(4, 3, 2, 2)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(-1, keepdim=True), x.argmax()), t(3, 4)),
    "one_hot": (lambda n: F.one_hot(n, 5).double(), whole(5, 3)),
}


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply groups of rows, as an operator of transformers does."""
    begins = [0, *ends.tolist()]
    pairs = zip(begins, begins[1:], weights, strict=False)
    return torch.cat([rows[begin:end] @ weight for begin, end, weight in pairs])


grouped.register_fake(lambda rows, weights, ends: rows.new_empty(rows.shape[0], weights.shape[2]))


def sorted_by_expert(rows, experts, weights):
    """Return products of rows with the weights of their experts, as mixtures of experts do."""
    places, order = torch.sort(experts)
    counts = torch.histc(places.double(), bins=weights.shape[0], min=0, max=weights.shape[0] - 1)
    ends = torch.cumsum(counts, 0).to(torch.int32)
    product = torch.ops.transformers.grouped_mm_fallback(
        rows[order], weights.transpose(1, 2), ends
    )
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return product[back]


def assigned(x, n, m, source):
    x = x.clone()
    x[:, n - 2, m] = source
    return x


def put(x, n, source, accumulate=False):
    return x.index_put((n,), source, accumulate)


INDEXING |= {
    "written places of the data": (put, t(6, 3), whole(6, 4), t(4, 3)),
    "places added to": (lambda *a: put(*a, True), t(6, 3), whole(6, 4, seed=3), t(4, 3)),
    "one number written": (lambda x, n: put(x, n, torch.tensor(2.0).double()), t(5), whole(5, 3)),
    "places of two axes": (
        assigned, t(2, 4, 3, 2), whole(4, 5), whole(3, 5), t(2, 5, 2)),
    "what a mask hides": (
        lambda x: x.index_put((x[..., 0] > 0,), torch.tensor(-1.0).double()), t(4, 3, 2)),
    "histogram": (lambda x: torch.histc(x, 5, -1, 1.5), t(40)),
    "few experts": (sorted_by_expert, t(12, 4), whole(3, 12), t(3, 5, 4)),
    "many experts": (sorted_by_expert, t(2, 4), whole(9, 2), t(9, 5, 4)),
}  # fmt: skip
INDEXING = Family(INDEXING)


@pytest.mark.parametrize("name", INDEXING.cases)
def test_indexing_is_that_of_torch(name):
    INDEXING.check(name)


REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(-1)),
    "prod": lambda x: x.prod(1),
    "extremes": lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min()),
    "extremes with places": lambda x: (*x.max(1), *x.min(2, keepdim=True)),
    "variance": lambda x: (x.var(1), x.var(unbiased=False), x.std(-1, keepdim=True)),
    "truth": lambda x: ((x > 1).any(1), (x > -9).all(), (x > 0).any()),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(2),
    "logsumexp": lambda x: x.logsumexp((1, 2)),
    "sum of truth values": lambda x: (x > 0).sum(1),
}


REDUCTIONS = Family({name: (function, t(3, 4, 5)) for name, function in REDUCTIONS.items()})


@pytest.mark.parametrize("name", REDUCTIONS.cases)
def test_reductions_are_those_of_torch(name):
    REDUCTIONS.check(name)


ATTENTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "known mask": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril()},
    "hiding all from one": {"attn_mask": torch.eye(5, dtype=torch.bool).roll(1, 0).triu()},
    "added mask": {"attn_mask": t(2, 1, 5, 5)},
}


def attention(options):
    """Return an attention with its inputs."""
    function = functools.partial(F.scaled_dot_product_attention, **options)
    return function, t(2, 3, 5, 4), t(2, 3, 5, 4, seed=1), t(2, 3, 5, 4, seed=2)


ATTENTIONS = Family({name: attention(options) for name, options in ATTENTIONS.items()})


@pytest.mark.parametrize("name", ATTENTIONS.cases)
def test_attention_is_that_of_torch(name):
    ATTENTIONS.check(name)


def test_attention_with_fewer_queries_other_widths_and_shared_heads_is_that_of_torch():
    attend = F.scaled_dot_product_attention
    causal = functools.partial(attend, is_causal=True)
    check_each(
        (causal, t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 4)),
        (attend, t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 6)),
        (lambda q, k: attend(q, k, k, enable_gqa=True), t(1, 4, 3, 8), t(1, 2, 3, 8)),
        (lambda q, m: attend(q, q, q, attn_mask=m > 0), t(2, 3, 5, 4), t(2, 1, 5, 5)),
        (attend, t(2, 5, 4), t(2, 5, 4), t(2, 5, 4)),
    )


def test_masks_of_several_batches_and_of_none_are_those_of_torch():
    attend = F.scaled_dot_product_attention
    check(lambda q, m: attend(q, q, q, m), t(2, 3, 2, 5, 4), t(3, 1, 5, 5))
    check(lambda q, m: attend(q, q, q, m), t(5, 4), t(5, 1))
    check(lambda q, m: attend(q, q, q, m > 0), t(3, 5, 4), t(5))


@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin", "mean"])
def test_what_is_written_at_indices_is_combined_as_torch_does(reduction):
    places = torch.tensor([[0, 2, 2, 1], [1, 1, 1, 1]])

    def combined(x, i, y):
        alone = x.scatter_reduce(1, i, y, reduction, include_self=False)
        return x.scatter_reduce(1, i, y, reduction), alone

    check(combined, t(2, 3), places, t(2, 4, seed=1))


def test_regions_of_images_are_those_of_their_definition():
    """The operator is torchvision's, which may lack its library here: means are written out."""
    x, regions = t(2, 3, 6, 7), torch.tensor([[1, 0.5, 1.0, 5.5, 4.0], [0, -3.0, 2.0, 2.0, 9.0]])
    regions = regions.double()
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        name = "roi_align"
        if not hasattr(torch.ops.torchvision, name):
            library.define(
                f"{name}(Tensor a, Tensor b, float c, int d, int e, int f, bool g) -> Tensor"
            )
            library.impl(name, _regions, "CPU")
            library.impl(name, lambda x, r, _, *s: x.new_empty(len(r), x.shape[1], *s[:2]), "Meta")
        align = torch.ops.torchvision.roi_align
        for aligned in (True, False):
            check(lambda a, b, g=aligned: align(a, b, 0.8, 3, 2, 2, g), x, regions)


def _regions(x, regions, scale, rows, columns, samples, aligned):
    """Return the means of samples of each region, by torch's own sampling of a grid."""
    height, width = x.shape[2:]
    found = []
    for number, *edges in regions.tolist():
        left, top, right, bottom = (each * scale - 0.5 * aligned for each in edges)
        down, across = bottom - top, right - left
        if not aligned:
            down, across = max(down, 1.0), max(across, 1.0)
        at = [
            begin + extent * (torch.arange(count * samples).double() + 0.5) / (count * samples)
            for begin, extent, count in ((top, down, rows), (left, across, columns))
        ]
        seen = [(a >= -1) & (a <= n) for a, n in zip(at, (height, width), strict=True)]
        ys, xs = (
            a.clamp(0, n - 1) / (n - 1) * 2 - 1 for a, n in zip(at, (height, width), strict=True)
        )
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)[None]
        image = F.grid_sample(x[int(number)][None], grid, align_corners=True)
        image = image * (seen[0][:, None] & seen[1][None])
        found.append(F.avg_pool2d(image, samples))
    return torch.cat(found)


def test_deformed_convolutions_are_those_of_their_definition():
    """The operator is torchvision's, which may lack its library here: samples are written out."""
    x, weight, bias = t(2, 4, 6, 5), t(6, 2, 3, 2), t(6)
    offset, mask = t(2, 2 * 6 * 2, 2, 6) * 2, t(2, 2 * 6, 2, 6, seed=1)
    numbers = "int a, int b, int c, int d, int e, int f, int g, int h, bool i"
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        name = "deform_conv2d"
        if not hasattr(torch.ops.torchvision, name):
            tensors = "Tensor x, Tensor w, Tensor o, Tensor m, Tensor y"
            library.define(f"{name}({tensors}, {numbers}) -> Tensor")
            library.impl(name, _deformed, "CPU")
            library.impl(name, lambda x, w, o, *_: x.new_empty(2, 6, *o.shape[2:]), "Meta")
        convolve = torch.ops.torchvision.deform_conv2d
        for use_mask in (True, False):
            how = (2, 1, 1, 2, 2, 3, 2, 2, use_mask)
            check(lambda *given, h=how: convolve(*given, *h), x, weight, offset, mask, bias)


def _deformed(x, weight, offset, mask, bias, down, across, top, left, dy, dx, groups, own, masked):
    """Return sums of samples, taken by torch's own sampling of a grid."""
    batch, channels, height, width = x.shape
    _, _, rows, columns = weight.shape
    offset = offset.view(batch, own, rows, columns, 2, *offset.shape[2:])
    mask = mask.view(batch, own, rows, columns, *mask.shape[2:])
    y = torch.arange(offset.shape[-2]).view(-1, 1) * down - top
    z = torch.arange(offset.shape[-1]) * across - left
    found = torch.zeros(batch, channels, rows, columns, *offset.shape[-2:], dtype=x.dtype)
    part = channels // own
    for group, i, j in itertools.product(range(own), range(rows), range(columns)):
        ys = (y + i * dy + offset[:, group, i, j, 0]) / (height - 1) * 2 - 1
        xs = (z + j * dx + offset[:, group, i, j, 1]) / (width - 1) * 2 - 1
        images = x[:, group * part : (group + 1) * part]
        read = F.grid_sample(images, torch.stack([xs, ys], -1), align_corners=True)
        factor = mask[:, group, i, j, None] if masked else 1.0
        found[:, group * part : (group + 1) * part, i, j] = read * factor
    parts = [
        torch.einsum("ncijyx,ocij->noyx", images, filters)
        for images, filters in zip(found.chunk(groups, 1), weight.chunk(groups), strict=True)
    ]
    return torch.cat(parts, 1) + bias.view(-1, 1, 1)


def test_loops_of_cells_are_unrolled():
    lstm = torch.nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True).double()
    gru = torch.nn.GRU(4, 5, batch_first=True).double()
    with torch.no_grad():
        for model in (lstm, gru):
            x = t(2, 3, 4)
            graph = from_pytorch(model.eval(), x).graph
            np.testing.assert_allclose(
                graph.run(x.numpy())[0], model(x)[0].numpy(), rtol=1e-6, atol=1e-7
            )


def test_divisions_that_round_are_exact_where_the_quotient_is_not():
    far = torch.tensor([2**60 + 1, -(2**60) - 1, 7, -7])
    by = torch.tensor([7, 7, -2, -2])
    check(lambda a, b: (a // b, a % b, torch.fmod(a, b), _towards_zero(a, b)), far, by)
    near = torch.tensor([1.0, -1.0, 2.0, 0.3, -7.5, 5.0], dtype=torch.float64)
    divided = [
        (lambda a, d=divisor: (a // d, a % d, torch.fmod(a, d)), near)
        for divisor in (0.1, -0.1, 3.0, float("inf"), -float("inf"))
    ]
    check_each(*divided, rtol=0)


def _towards_zero(a, b):
    return torch.div(a, b, rounding_mode="trunc")


def test_bits_of_whole_numbers_are_combined():
    a, b = torch.arange(5), torch.tensor([3, -1, 7, 2, 0])
    check(lambda a, b: (a & b, a | b, a ^ b, ~a), a, b)
    check(lambda a, b: (a << 2, b >> 1, b >> a, (b.to(torch.uint8) >> 4) & 15), a, b)


def test_questions_of_floats_and_assignments_to_parts_are_those_of_torch():
    x = torch.tensor([[float("nan"), float("inf"), -1.5], [2.5, -0.0, -float("inf")]])

    def assigned(a):
        made = a.clone()
        made[:, 0] = a[0, :2]
        made[1] = 3
        return made

    check_each(
        (lambda a: (a.isnan(), a.isinf()), x),
        (lambda a: (a.round(), (a * 9).long().isnan()), t(2, 3)),
        (assigned, t(2, 3)),
    )


def test_limits_that_cross_give_the_upper_one():
    check(lambda a: (a.clamp(2, -1), (a * 9).long().clamp(2, -1)), t(2, 3))


# ---- order, places and grids that depend on the data


def with_nan():
    """Return rows of which one has something that is no number."""
    x = t(3, 5)
    x[1, 2] = float("nan")
    return x


ORDERS = Family({
    "sort": (lambda x: torch.sort(x, 1), t(5, 4, 3)),
    "sort descending": (lambda x: torch.sort(x, 0, descending=True), t(5, 4, 3)),
    "topk": (lambda x: torch.topk(x, 2, 0, largest=False), t(5, 4, 3)),
    "argsort": (lambda x: torch.argsort(x, stable=True), t(5, 4, 3)),
    "kthvalue": (lambda x: (*x.kthvalue(3, 0, True), *x.kthvalue(2)), t(5, 4, 3)),
    "median": (lambda x: (*x.median(1), *x.median(0, True), x.median()), t(5, 4, 3)),
    "median of whole numbers": (lambda x: x.median(1)[0], whole(9, 3, 4)),
    "median of what is no number": (lambda x: (*x.median(1), x.median()), with_nan()),
})  # fmt: skip


@pytest.mark.parametrize("name", ORDERS.cases)
def test_elements_in_order(name):
    ORDERS.check(name)


def test_of_equal_elements_the_first_is_before_the_others():
    check(lambda x: torch.sort(x, dim=0, stable=True), whole(3, 9, 4))


@pytest.mark.parametrize("greatest", [False, True])
def test_what_is_no_number_is_greater_than_all_numbers(greatest):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[3.0, nan, 1.0, 1.0, nan], [inf, -inf, 0.0, nan, 5.0], [nan] * 5])
    check_each(
        (lambda x: torch.sort(x, dim=1, stable=True, descending=greatest), x),
        (lambda x: torch.topk(x, 2, 1, largest=greatest)[0], x),
    )


def test_an_update_that_is_infinite_is_added_to_its_own_place_only():
    updates = t(2, 4)
    updates[0, 1], updates[1, 2] = float("inf"), float("nan")
    check(lambda x, i, s: x.scatter_add(1, i, s), t(2, 6), whole(6, 2, 4), updates)


def test_elements_are_written_and_added_where_the_data_say():
    order = torch.argsort(t(3, 4, 2), 1)
    added = t(4, 2), whole(4, 9, 2), t(9, 2, seed=5)
    check_each(
        (lambda x, i, s: x.scatter(1, i, s), t(3, 6, 2), order, t(3, 4, 2, seed=3)),
        (lambda x, i: x.scatter(0, i, 2.5), t(6, 2), whole(6, 2, 2)),
        (lambda x, i, s: x.scatter_add(0, i, s), *added),
    )


def test_writes_to_a_tensor_without_axes_are_refused():
    given = t(), torch.tensor(0), t(seed=1)
    for write in (
        lambda x, i, s: x.scatter(0, i, s),
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
    ):
        with pytest.raises(GraphError, match=r"the data must be a tensor with an axis"):
            check(write, *given)


def sampling(**options):
    """Return a sampling of an image with its inputs."""
    function = functools.partial(F.grid_sample, **options)
    return function, t(2, 3, 5, 4), 1.6 * t(2, 3, 6, 2, seed=2)


SAMPLINGS = Family({
    f"{mode}, {padding}, {corners}": sampling(
        mode=mode, padding_mode=padding, align_corners=corners
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (True, False)
})  # fmt: skip


@pytest.mark.parametrize("name", SAMPLINGS.cases)
def test_images_at_the_places_of_a_grid(name):
    SAMPLINGS.check(name, rtol=1e-6)


BAGS = {
    "bags of one size": (lambda w, i: F.embedding_bag(i, w, mode="sum"), whole(7, 3, 4)),
    "their averages": (lambda w, i: F.embedding_bag(i, w), whole(7, 3, 4)),
    "their largest": (lambda w, i: F.embedding_bag(i, w, mode="max"), whole(7, 3, 4)),
    "with shares": (
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        whole(7, 3, 4), t(3, 4, seed=2),
    ),
    "bags that the data say": (
        lambda w, i, o: (F.embedding_bag(i, w, o, mode="sum"), F.embedding_bag(i, w, o)),
        whole(7, 9), torch.tensor([0, 2, 2, 5]),
    ),
    "with an end": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        whole(7, 9), torch.tensor([0, 2, 9]),
    ),
}  # fmt: skip
BAGS = Family({name: (function, t(7, 5), *own) for name, (function, *own) in BAGS.items()})


@pytest.mark.parametrize("name", BAGS.cases)
def test_bags_of_rows_are_those_of_torch(name):
    BAGS.check(name)
