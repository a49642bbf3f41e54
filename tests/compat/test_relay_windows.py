"""Convolutions and pools of `relay.nn` in one to three dimensions, beside plain loops."""

import itertools

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Graph
from autotune.tvm import cpu, relay
from autotune.tvm.contrib import graph_executor
from autotune.tvm.topi import testing

SPACE = {1: "W", 2: "HW", 3: "DHW"}
EXTENTS = {1: (11,), 2: (7, 6), 3: (5, 6, 4)}
KERNEL = {1: (3,), 2: (3, 2), 3: (3, 2, 1)}


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def variable(name, array):
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def results(*pairs):
    """Return what expressions are in numpy and compiled; each pair has arrays by name."""
    values, given = [value for value, _ in pairs], {k: v for _, d in pairs for k, v in d.items()}
    graph = Graph.of(*values)
    plain = graph.run(*[given[v.name] for v in graph.inputs])
    module = relay.IRModule.from_expr(relay.Function(graph.inputs, relay.Tuple(values)))
    net = graph_executor.GraphModule(relay.build(module, "llvm")["default"](cpu()))
    net.run(**given)
    return [(a, net.get_output(i).numpy()) for i, a in enumerate(plain)]


def check(expected, *pairs):
    for want, both in zip(expected, results(*pairs), strict=True):
        for got in both:
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def convolved(x, w, steps, before, after, holes, groups):
    """Convolve [N, C, ...] by [O, I, ...], one element at a time."""
    dims = x.ndim - 2
    padded = np.pad(x, ((0, 0), (0, 0), *zip(before, after, strict=True)))
    reach = [(k - 1) * h + 1 for k, h in zip(w.shape[2:], holes, strict=True)]
    size = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, steps, strict=True)]
    out, per = np.zeros((len(x), len(w), *size), "float32"), len(w) // groups
    inputs = w.shape[1]
    for place in itertools.product(*map(range, size)):
        at = [
            slice(i * s, i * s + r, h)
            for i, s, r, h in zip(place, steps, reach, holes, strict=True)
        ]
        for o in range(len(w)):
            first = o // per * inputs
            window = padded[(slice(None), slice(first, first + inputs), *at)]
            out[(slice(None), o, *place)] = (window * w[o]).sum(tuple(range(1, dims + 2)))
    return out


def spread(x, w, steps, before, after, holes, more, groups):
    """Add each element times the filters [in, out / groups, ...] to its window of the result."""
    reach = [(k - 1) * h + 1 for k, h in zip(w.shape[2:], holes, strict=True)]
    full = [
        (n - 1) * s + r + m for n, s, r, m in zip(x.shape[2:], steps, reach, more, strict=True)
    ]
    per_in, per_out = x.shape[1] // groups, w.shape[1]
    out = np.zeros((len(x), per_out * groups, *full), "float32")
    for place in itertools.product(*map(range, x.shape[2:])):
        at = [
            slice(i * s, i * s + r, h)
            for i, s, r, h in zip(place, steps, reach, holes, strict=True)
        ]
        for c in range(x.shape[1]):
            first = c // per_in * per_out
            element = x[(slice(None), c, *place)].reshape(-1, *[1] * (w.ndim - 1))
            out[(slice(None), slice(first, first + per_out), *at)] += element * w[c]
    cut = [slice(b, n - a) for b, a, n in zip(before, after, full, strict=True)]
    return out[(slice(None), slice(None), *cut)]


def every(step, variants, *factors):
    """Return every second or third of the variants, beginning with another for other factors.

    So each variant is compiled with each value of a factor, but not with each combination.
    """
    return [each for n, each in enumerate(variants) if (n + sum(factors)) % step == 0]


def axes_moved(array, layout, wanted):
    return array.transpose([layout.index(letter) for letter in wanted])


@pytest.mark.many_cases
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions_are_those_of_plain_loops_in_any_layout(dims, groups):
    space = SPACE[dims]
    x, w = numbers(2, 4, *EXTENTS[dims]), numbers(8, 4 // groups, *KERNEL[dims], seed=1)
    conv = getattr(relay.nn, f"conv{dims}d")
    moves = ([2, 1, 1][:dims], [1] * dims, [0] * dims, [1, 2, 1][:dims])
    want = convolved(x, w, *moves, groups)
    pairs, expected = [], []
    layouts = [
        ("NC" + space, "OI" + space),
        ("NC" + space, space + "IO"),
        (f"N{space}C", space + "IO"),
        (f"N{space}C", space + "OI"),
        (f"N{space}C", f"O{space}I"),
    ]
    for n, (images, filters) in enumerate(every(3, layouts, dims, {1: 0, 2: 1, 4: 2}[groups])):
        data, weight = axes_moved(x, "NC" + space, images), axes_moved(w, "OI" + space, filters)
        a, b = variable(f"x{n}", data), variable(f"w{n}", weight)
        steps, before, after, holes = moves
        call = conv(
            a, b, steps, (*before, *after), holes, groups, 8, KERNEL[dims], images, filters,
            "NC" + space,
        )  # fmt: skip
        pairs.append((call, {a.name: data, b.name: weight}))
        expected.append(want)
    check(expected, *pairs)


def test_each_channel_may_have_several_filters_of_its_own():
    x = numbers(1, 3, 6, 5)
    w = numbers(3, 2, 3, 3, seed=1)  # as TVM has them: [channels, filters of each, ...]
    want = convolved(x, w.reshape(6, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 3)
    a, b = variable("x", x), variable("w", w)
    nhwc, hwoi = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1)
    c, d = variable("y", nhwc), variable("v", hwoi)
    check(
        [want, want],
        (relay.nn.conv2d(a, b, padding=1, groups=3, channels=6), {"x": x, "w": w}),
        (
            relay.nn.conv2d(
                c, d, padding=1, groups=3, data_layout="NHWC", kernel_layout="HWOI",
                out_layout="NCHW",
            ),
            {"y": nhwc, "v": hwoi},
        ),
    )  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_add_each_element_to_its_window(dims, groups):
    x, w = numbers(1, 4, *EXTENTS[dims]), numbers(4, 3, *KERNEL[dims], seed=1)
    space, conv = SPACE[dims], getattr(relay.nn, f"conv{dims}d_transpose")
    a, b = variable("x", x), variable("w", w)
    pairs, expected = [], []
    variants = [
        ([2] * dims, [0] * dims, [0] * dims, [1] * dims, [1] * dims),
        ([2, 1, 2][:dims], [1] + [0] * (dims - 1), [0] * dims, [1] * dims, [0] * dims),
        ([1, 2, 1][:dims], [0] * dims, [1] + [0] * (dims - 1), [2, 1, 1][:dims], [0] * dims),
        ([1] * dims, [0] * dims, [0] * dims, [1] * dims, [1] + [0] * (dims - 1)),
    ]
    for steps, before, after, holes, more in every(2, variants, dims, groups):
        call = conv(
            a, b, steps, (*before, *after), holes, 3 * groups, KERNEL[dims], groups,
            output_padding=more,
        )  # fmt: skip
        pairs.append((call, {"x": x, "w": w}))
        expected.append(spread(x, w, steps, before, after, holes, more, groups))
    last, order = x.transpose(0, *range(2, dims + 2), 1), (0, *range(2, dims + 2), 1)
    filters, layout = w, "OI" + space  # [in, out, ...] by the older name
    if dims != 2:
        filters, layout = w.transpose(*range(2, dims + 2), 0, 1), space + "OI"
    c, d = variable("last", last), variable("filters", filters)
    call = conv(c, d, 2, groups=groups, data_layout=f"N{space}C", kernel_layout=layout)
    pairs.append((call, {"last": last, "filters": filters}))
    want = spread(x, w, [2] * dims, *[[0] * dims] * 2, [1] * dims, [0] * dims, groups)
    check([*expected, want.transpose(order)], *pairs)


def test_references_of_topi_are_those_of_plain_loops():
    x, w = numbers(2, 4, 11), numbers(6, 2, 3, seed=1)
    line, image, volume = (numbers(1, 4, *EXTENTS[dims]) for dims in (1, 2, 3))
    filters = [numbers(4, 4, *KERNEL[dims], seed=2) for dims in (1, 2, 3)]
    pairs = [
        (testing.conv1d_ncw_python(x, w, 2, (1, 2), 2, 2), convolved(x, w, [2], [1], [2], [2], 2)),
        (
            testing.conv1d_ncw_python(line, filters[0], 1, "SAME"),
            convolved(line, filters[0], [1], [1], [1], [1], 1),
        ),
        (
            testing.conv1d_transpose_ncw_python(line, filters[0], 2, (1, 0), 1),
            spread(line, filters[0], [2], [1], [0], [1], [1], 1),
        ),
        (
            testing.conv2d_transpose_nchw_python(image, filters[1], 2, 1, (1, 0)),
            spread(image, filters[1], [2, 2], [1, 1], [1, 1], [1, 1], [1, 0], 1),
        ),
        (
            testing.conv3d_ncdhw_python(volume, filters[2][:, :2], (2, 1, 1), 1, 2),
            convolved(volume, filters[2][:, :2], [2, 1, 1], [1] * 3, [1] * 3, [1] * 3, 2),
        ),
    ]
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def pooled(x, kind, size, steps, before, after, holes, ceil, counts):
    """Pool [N, C, ...], one window at a time."""
    after = [a + (s - 1) * ceil for a, s in zip(after, steps, strict=True)]
    sides = ((0, 0), (0, 0), *zip(before, after, strict=True))
    padded = np.pad(x, sides, constant_values=-np.inf if kind == "max" else 0)
    inside = np.pad(np.ones_like(x), sides, constant_values=counts)
    reach = [(k - 1) * h + 1 for k, h in zip(size, holes, strict=True)]
    extents = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, steps, strict=True)]
    out, axes = np.zeros((*x.shape[:2], *extents), "float32"), tuple(range(2, x.ndim))
    for place in itertools.product(*map(range, extents)):
        at = (..., *[
            slice(i * s, i * s + r, h)
            for i, s, r, h in zip(place, steps, reach, holes, strict=True)
        ])  # fmt: skip
        window = padded[at].max(axes) if kind == "max" else padded[at].sum(axes)
        out[(slice(None), slice(None), *place)] = (
            window if kind == "max" else window / np.maximum(inside[at].sum(axes), 1)
        )
    return out


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pools_are_those_of_plain_loops_in_both_layouts(dims, kind):
    space, pool = SPACE[dims], getattr(relay.nn, f"{kind}_pool{dims}d")
    x = numbers(1, 2, *EXTENTS[dims])
    last = x.transpose(0, *range(2, dims + 2), 1)
    a, b = variable("x", x), variable("y", last)
    size, steps = [2, 3, 2][:dims], [2, 2, 1][:dims]
    pairs, expected = [], []
    variants = [
        ([0] * dims, [0] * dims, [1] * dims, False, False),
        ([1] * dims, [0] * dims, [1] * dims, True, False),
        ([1] * dims, [1] * dims, [1, 2, 1][:dims], False, kind == "avg"),
    ]
    for n, (before, after, holes, ceil, counts) in enumerate(variants):
        more = {"count_include_pad": counts} if kind == "avg" else {}
        rest = (size, steps, holes, (*before, *after))
        want = pooled(x, kind, size, steps, before, after, holes, ceil, counts)
        first = pool(a, *rest, ceil_mode=ceil, **more)
        second = pool(b, *rest, f"N{space}C", "NC" + space, ceil, **more)
        pairs += every(2, [(first, {"x": x}), (second, {"y": last})], n, dims, kind == "avg")
        expected.append(want)
    check(expected, *pairs)


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_whole_images_and_parts_of_them_are_pooled(dims, kind):
    space, x = SPACE[dims], numbers(1, 2, *EXTENTS[dims])
    last = x.transpose(0, *range(2, dims + 2), 1)
    a, b = variable("x", x), variable("y", last)
    whole = getattr(relay.nn, f"global_{kind}_pool{dims}d")
    parts = getattr(relay.nn, f"adaptive_{kind}_pool{dims}d")
    reduce, axes = (np.max if kind == "max" else np.mean), tuple(range(2, dims + 2))
    one = reduce(x, axes, keepdims=True)
    counts = [4, 3, 4][:dims]
    some = np.zeros((1, 2, *counts), "float32")
    for place in itertools.product(*map(range, counts)):
        at = [
            slice(i * n // k, -(-(i + 1) * n // k))
            for i, n, k in zip(place, x.shape[2:], counts, strict=True)
        ]
        some[(slice(None), slice(None), *place)] = reduce(x[(slice(None), slice(None), *at)], axes)
    images = f"N{space}C", "NC" + space
    cases = [
        (one, (whole(a), {"x": x})),
        (one, (whole(b, *images), {"y": last})),
        (one, (parts(a, 1), {"x": x})),
        (some, (parts(a, counts), {"x": x})),
        (some, (parts(b, counts, *images), {"y": last})),
        (x, (parts(a), {"x": x})),
    ]
    chosen = every(2, cases, dims, kind == "avg")
    check([want for want, _ in chosen], *(pair for _, pair in chosen))


def test_parts_that_divide_images_are_windows():
    x = numbers(1, 2, 6, 4)
    want = x.reshape(1, 2, 3, 2, 2, 2).mean((3, 5))
    check([want], (relay.nn.adaptive_avg_pool2d(variable("x", x), (3, 2)), {"x": x}))


LINE, VOLUME = relay.var("line", shape=(1, 4, 9)), relay.var("volume", shape=(1, 4, 5, 5, 5))
COUNTS = relay.var("counts", shape=(1, 4, 5, 5, 5), dtype="int32")
FILTER = relay.var("filter", shape=(4, 4, 3))
IMAGE, FILTERS = relay.var("image", shape=(1, 4, 5, 5)), relay.var("filters", shape=(4, 2, 3, 3))


WRONG = {
    "one of 'NCW', 'NWC'": lambda: relay.nn.conv1d(LINE, FILTER, data_layout="NCW4c"),
    "a permutation of OIW": lambda: relay.nn.conv1d(LINE, FILTER, kernel_layout="OIHW"),
    "nn.conv1d: data must be of the dimensions NCW": lambda: relay.nn.conv1d(VOLUME, FILTER),
    "padding must be 1 or 2 whole numbers": lambda: relay.nn.conv1d(LINE, FILTER, 1, (1, 1, 1)),
    "5 output channels": lambda: relay.nn.conv1d(LINE, FILTER, channels=5),
    "nn.conv2d: weight must have 16": lambda: relay.nn.conv2d(
        IMAGE, FILTERS, channels=16, groups=2
    ),
    "nn.conv2d_transpose: weight must have 5": lambda: relay.nn.conv2d_transpose(
        IMAGE, FILTERS, channels=5, groups=2
    ),
    "nn.conv1d: weight must be of 4 input channels in 2": lambda: relay.nn.conv1d(
        LINE, FILTER, groups=2
    ),
    "data_layout must be one of 'NCW'": lambda: relay.nn.conv1d_transpose(
        LINE, FILTER, data_layout="NCW4c"
    ),
    "kernel_layout must be IOHW or OIHW": lambda: relay.nn.conv2d_transpose(
        relay.var("x", shape=(1, 4, 5, 5)),
        relay.var("w", shape=(3, 3, 4, 2)),
        kernel_layout="HWIO",
    ),
    "a number that divides 4": lambda: relay.nn.conv1d_transpose(LINE, FILTER, groups=3),
    "nn.max_pool1d: data must be of the dimensions": lambda: relay.nn.max_pool1d(VOLUME),
    "one of 'NCDHW', 'NDHWC'": lambda: relay.nn.max_pool3d(VOLUME, layout="NCHW"),
    "data must be of floats; cast it first": lambda: relay.nn.avg_pool3d(COUNTS, 2),
    "pool_size must be 1 or 3 whole numbers": lambda: relay.nn.avg_pool3d(VOLUME, (2, 2)),
    "output_size must be a whole number of": lambda: relay.nn.adaptive_max_pool1d(LINE, 0),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_window_is_refused(message):
    with pytest.raises(GraphError, match=message):
        WRONG[message]()
