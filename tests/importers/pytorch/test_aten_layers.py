"""Products, convolutions, norms, pooling, attention and cells, against PyTorch in float64."""

import functools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402
from tests.importers.pytorch.families import Family, check, check_each, t, whole  # noqa: E402

F = torch.nn.functional


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


@pytest.mark.many_cases
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


@pytest.mark.many_cases
@pytest.mark.parametrize("name", NORMS.cases)
def test_norms_are_those_of_torch(name):
    NORMS.check(name)


# Numbers among which some are none.
ODD = torch.where(t(2, 3, 9, 7, seed=3) > 1, math.nan, t(2, 3, 9, 7))


def _with_places(pool, x, *args, **how):
    """Return the greatest numbers of windows, and where they are."""
    return pool(x, *args, **how, return_indices=True)


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
    "adaptive max with places": (lambda x: _with_places(F.adaptive_max_pool2d, x, (3, 2)), ODD),
    "max 1d with places": (lambda x: _with_places(F.max_pool1d, x[0], 3, 2, 1), ODD),
    "max 2d with places": (lambda x: _with_places(F.max_pool2d, x, 3, 2, 1), ODD),
    "max 2d with places of equals": (
        lambda x: _with_places(F.max_pool2d, x, 3, 2, 1, ceil_mode=True, dilation=(1, 2)),
        whole(3, 2, 3, 9, 7).double(),
    ),
    "max 2d with places of the least": (
        lambda x: _with_places(F.max_pool2d, x, 3, 2, 1), torch.full((1, 1, 6, 6), -math.inf),
    ),
    "max 3d with places": (lambda x: _with_places(F.max_pool3d, x, 2, 2, 1, ceil_mode=True), ODD),
    "unpool 2d": (
        lambda x: F.max_unpool2d(*_with_places(F.max_pool2d, x, 2), 2, output_size=(9, 7)),
        t(2, 3, 9, 7),
    ),
}  # fmt: skip


POOLS = Family(POOLS)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", POOLS.cases)
def test_pooling_is_that_of_torch(name):
    POOLS.check(name)


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
