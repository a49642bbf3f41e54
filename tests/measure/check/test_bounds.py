"""References with their error bounds: what rounds honestly is within them, mistakes are not."""

import inspect

import numpy as np
import pytest

from autotune import te, topi
from autotune.errors import MeasureError
from autotune.measure.check import bounded_block, bounded_loops
from autotune.measure.check.compare import mismatch
from autotune.measure.check.expected import expected
from autotune.measure.check.naive import PlainLoops, naive_outputs
from autotune.te import math as te_math
from tests.topi.evaluate import evaluate

RNG = np.random.default_rng(0)
LOOPS = []  # the process in which all loops of this module run


@pytest.fixture(scope="module", autouse=True)
def loops():
    LOOPS.append(PlainLoops())
    yield
    LOOPS.pop().end()


def made(folder, make, *arrays):
    """The expected outputs of an operator."""
    return both(folder, make, *arrays)[0]


def both(folder, make, *arrays):
    """The expected outputs of an operator, and how numpy computes them in its own dtypes."""
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{i}") for i, a in enumerate(arrays)]
    out = make(*tensors)
    pairs = list(zip(tensors, arrays, strict=True))
    return expected_of([*tensors, out], arrays, folder)[0], lambda: evaluate(out, pairs)


def expected_of(tensors, arrays, folder):
    files = [str(folder / f"{number}.npy") for number in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        np.save(file, array)
    return naive_outputs(tensors, files, folder, loops=LOOPS[0])


def uniform(*shape, dtype="float32", low=-1.0):
    return RNG.uniform(low, 1, shape).astype(dtype)


def winograd(x, w):
    return topi.nn.conv2d_winograd_nchw(x, w, 1, 1, tile_size=2)


GRAPHS = {
    "matmul": (topi.matmul, (64, 300), (300, 48)),
    "softmax": (topi.nn.softmax, (16, 4099)),
    "log_softmax": (topi.nn.log_softmax, (16, 1000)),
    "conv": (lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 1), (2, 16, 13, 11), (8, 16, 3, 3)),
    "winograd": (winograd, (1, 8, 8, 8), (4, 8, 3, 3)),
    "pooling": (lambda x: topi.nn.pool2d(x, 3, 2, 1, 1, "avg"), (1, 4, 9, 9)),
    "mean": (lambda x: topi.mean(x, 1), (64, 5000)),
    "deviation": (lambda x: x - topi.mean(x), (12, 40)),
    "product": (lambda x: topi.prod(x, 1), (9, 20)),
    "chain": (lambda x: topi.exp(topi.nn.relu(topi.tanh(x) * 3) - x * x), (40, 50)),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GRAPHS)
def test_what_numpy_computes_is_within_the_bounds(name, dtype, tmp_path):
    make, *shapes = GRAPHS[name]
    found, numpy = both(tmp_path, make, *(uniform(*s, dtype=dtype) for s in shapes))
    assert found.values.dtype == np.dtype(dtype)
    assert mismatch("y", numpy(), found) is None


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ["matmul", "softmax", "conv", "mean"])
def test_a_bound_is_narrower_than_a_missing_term(name, tmp_path):
    make, *shapes = GRAPHS[name]
    arrays = [uniform(*s) for s in shapes]
    found = made(tmp_path, make, *arrays)
    less = [a.copy() for a in arrays]
    last = (slice(None), -1) if name == "conv" else (..., -1)
    less[0][last] = -50.0 if name == "softmax" else 0.0
    _, without = both(tmp_path, make, *less)
    assert mismatch("y", without(), found) is not None


def mistakes(right, bounds):
    """Planted errors: each is a right output but for one thing."""
    rng = np.random.default_rng(1)
    one = right.copy()
    place = tuple(rng.integers(0, n) for n in right.shape)
    one[place] = right[place] * 1.001 + 1e-3
    yield "one element", one
    rows = right.copy()
    rows[[0, 1]] = rows[[1, 0]]
    yield "two rows swapped", rows
    unwritten = right.copy()
    unwritten.flat[-1] = np.nan
    yield "NaN", unwritten
    yield "stale", np.roll(right, 1, axis=-1)
    yield "all a little larger", right + 0.9 * bounds
    yield "zeros", np.zeros_like(right)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ["matmul", "softmax", "conv", "mean", "chain"])
def test_planted_errors_are_found(name, tmp_path):
    make, *shapes = GRAPHS[name]
    found, numpy = both(tmp_path, make, *(uniform(*s) for s in shapes))
    right = numpy()
    passed = [n for n, y in mistakes(right, found.bounds) if mismatch("y", y, found) is None]
    assert not passed


MOVES = [topi.transpose, topi.nn.relu, lambda x: topi.max(x, 1), lambda x: topi.argmax(x, 1)]


@pytest.mark.many_cases
@pytest.mark.parametrize("make", MOVES)
def test_what_only_moves_or_compares_has_no_error(make, tmp_path):
    found, numpy = both(tmp_path, make, uniform(30, 40))
    assert found.bounds is None
    assert np.array_equal(found.values, numpy())


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_integers_wrap_as_theirs_do(dtype, tmp_path):
    def cubes(x):
        return te.compute(x.shape, lambda i, j: x[i, j] * x[i, j] * x[i, j] - x[j % 7, i])

    found, numpy = both(tmp_path, cubes, RNG.integers(0, 100, (7, 7)).astype(dtype))
    assert found.bounds is None
    assert np.array_equal(found.values, numpy())


def test_a_choice_that_rounding_decides_may_go_either_way(tmp_path):
    def step(a):
        both_ways = a(0) * a(0), a(0) * a(0) / 3 * 3
        return te.compute((1,), lambda i: te.if_then_else(both_ways[0] > both_ways[1], 1.0, 0.0))

    def floors(a):
        return te.compute(a.shape, lambda i: te.floor(a[i] * 10 / 3))

    assert np.all(made(tmp_path, step, np.array([0.1], np.float32)).bounds >= 1)
    # Three times 0.3f is so near to 3 that it may be on either side.
    found = made(tmp_path, floors, np.array([0.1, 0.3, 0.5, 0.7], np.float32))
    assert [bool(b >= 1) for b in found.bounds] == [False, True, False, False]


def test_the_place_of_a_maximum_of_rounded_values_may_be_any_of_the_nearest(tmp_path):
    x = np.array([[0.1, 0.7, 0.7000001, 0.2], [0.1, 0.9, 0.3, 0.2]], np.float32)
    bounds = made(tmp_path, lambda a: topi.argmax(topi.exp(a), 1), x).bounds
    assert bounds[0] >= 1
    assert bounds[1] == 0


def functions_of_te():
    members = inspect.getmembers(te_math, inspect.isfunction)
    own = [f for n, f in members if f.__module__ == te_math.__name__ and not n.startswith("_")]
    return [f for f in own if f is not te_math.popcount]


def test_every_function_of_te_has_an_error(tmp_path):
    arrays = [uniform(50, low=0.1), uniform(50, low=0.1)]
    a, b = (te.placeholder((50,), name=n) for n in "ab")
    outputs = []
    for function in functions_of_te():
        two = len(inspect.signature(function).parameters) == 2
        least = 1.0 if function is te_math.acosh else 0.0  # of its arguments
        value = (
            (lambda i, f=function: f(a[i], b[i]))
            if two
            else lambda i, f=function, least=least: f(a[i] * b[i] + least)
        )
        outputs.append(te.compute((50,), value, name=function.__name__))
    half = len(outputs) // 2
    found = [
        *expected_of([a, b, *outputs[:half]], arrays, tmp_path),
        *expected_of([a, b, *outputs[half:]], arrays, tmp_path),
    ]
    for output, one in zip(outputs, found, strict=True):
        got = evaluate(output, zip((a, b), arrays, strict=True))
        assert mismatch(output.name, got, one) is None


def test_conditioning_widens_a_bound(tmp_path):
    x = np.array([1.0, 20.0], np.float32)
    found = made(tmp_path, lambda a: topi.exp(a * 1.1), x)
    relative = found.bounds / found.values
    assert relative[1] > 3 * relative[0]
    found = made(tmp_path, lambda a: topi.log(a * 1.1 - 1.0999999), x[:1])
    assert found.bounds[0] > 0.01


def test_what_overflows_on_the_way_is_not_bounded(tmp_path):
    def inner(a):
        return te.compute(a.shape, lambda i: te.exp(a[i]))

    found = made(tmp_path, lambda a: topi.log(inner(a)), np.array([1.0, 100.0], np.float32))
    assert list(np.isfinite(found.bounds)) == [True, False]
    got = np.array([1.0, np.inf], np.float32)
    assert mismatch("y", got, found) is None


def test_a_sum_over_a_condition_counts_what_holds(tmp_path):
    k = te.reduce_axis((0, 30), name="k")

    def make(a):
        return te.compute((20,), lambda i: te.sum(a[i, k], axis=k, where=a[i, k] > 0))

    x = uniform(20, 30)
    found = made(tmp_path, make, x)
    assert np.allclose(found.values, np.where(x > 0, x, 0).sum(1), rtol=1e-5)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Make a C compiler that does something before it compiles the plain loops."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("autotune.measure.process.blame.PAUSES_S", (0.0,) * 7)

    def install(action):
        path = tmp_path / "fakecc"
        path.write_text(f'#!/bin/sh\nif [ -e kernel.c ]; then\n{action}\nfi\nexec cc "$@"\n')
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))

    return install


@pytest.mark.parametrize(
    "fault", ["kill -9 $$", "echo 'No space left on device'; exit 1", "kill -SEGV $$"]
)
def test_a_compiler_that_dies_over_a_reference_is_asked_again(compiler, tmp_path, fault):
    once = tmp_path / "once"
    compiler(f"[ -e '{once}' ] || {{ touch '{once}'; {fault}; }}")
    found = made(tmp_path, lambda a: te.compute((4,), lambda i: a[i] * 2), uniform(4))
    assert once.exists()
    assert found.values.shape == (4,)


def test_a_compiler_that_always_dies_over_a_reference_is_told_once(compiler, tmp_path):
    compiler("kill -SEGV $$")
    with pytest.raises(MeasureError, match="fakecc failed, 3 times in a row"):
        made(tmp_path, lambda a: te.compute((4,), lambda i: a[i] * 2), uniform(4))


def test_symbolic_extents_are_refused(tmp_path):
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1, name="b")
    with pytest.raises(MeasureError, match="known only when it runs"):
        naive_outputs([a, b], [], tmp_path)


def test_expected_values_are_those_of_the_dtype_with_what_rounding_them_moved():
    exact = np.array([1 / 3, 1e300, np.nan, 2.0])
    found = expected(exact, np.array([0.0, 0.0, 0.0, 1e-9]), "float32")
    assert found.values.dtype == np.float32
    assert found.bounds[0] >= abs(np.float32(1 / 3) - 1 / 3)
    assert found.bounds[3] >= 1e-9
    assert expected(np.array([1.5, 2.0]), None, "float32").bounds is None


PRODUCTS = {
    "ik,kj->ij": (70, 9, 12),
    "ik,jk->ij": (13, 70, 12),
    "ki,jk->ij": (66, 5, 7),
    "jk,ki->ij": (1, 67, 8),
    "bik,bjk->bij": (3, 9, 65, 10),
    "kil,ljk->ij": (6, 70, 5, 4),
    "ijk,k->ij": (2, 66, 30),
    "ik,k->i": (130, 40),
    "ik,ik->": (9, 8),
    "ijk,kji->kj": (4, 5, 64),
}


def einsum(spec, made_of, extents):
    """A product of two tensors by its letters, of which those that are summed come last."""
    operands, letters = spec.split("->")[0].split(","), spec.split("->")[1]
    summed = [c for c in dict.fromkeys("".join(operands)) if c not in letters]
    axes = {c: te.reduce_axis((0, extents[c]), name=c) for c in summed}

    def element(*indices):
        at = {**dict(zip(letters, indices, strict=True)), **axes}
        left, right = (
            t[tuple(at[c] for c in of)] for t, of in zip(made_of, operands, strict=True)
        )
        return te.sum(left * right, axis=list(axes.values()))

    return te.compute(tuple(extents[c] for c in letters) or (1,), element if letters else (
        lambda _: element()
    ))  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("made_before", [False, True])
@pytest.mark.parametrize("spec", PRODUCTS)
def test_blocks_and_copies_change_no_value_and_no_bound(spec, made_before, tmp_path, monkeypatch):
    letters = dict.fromkeys(c for c in spec if c.isalpha())
    extents = dict(zip(letters, PRODUCTS[spec], strict=True))
    arrays = [uniform(*(extents[c] for c in of)) for of in spec.split("->")[0].split(",")]

    def make(*tensors):
        # Tensors that were computed have bounds of their own, which are read alike.
        used = [topi.exp(t) for t in tensors] if made_before else tensors
        return einsum(spec, used, extents)

    found = made(tmp_path, make, *arrays)
    exact = [a.astype("float64") for a in arrays]
    wanted = np.einsum(spec, *(map(np.exp, exact) if made_before else exact))
    assert np.allclose(found.values, wanted.reshape(found.values.shape), rtol=1e-6, atol=1e-6)
    for name in ("_WIDTH", "_HEIGHT"):
        monkeypatch.setattr(bounded_block, name, 1)
    for name, plain in {"_UNROLLED": (), "_COPY_FROM": 1e9}.items():
        monkeypatch.setattr(bounded_loops, name, plain)
    slow = made(tmp_path, make, *arrays)
    assert np.allclose(found.values, slow.values, rtol=1e-7, atol=1e-12)
    assert np.allclose(found.bounds, slow.bounds, rtol=1e-5, atol=0)


def test_what_is_far_apart_is_read_from_a_copy():
    a, b = (te.placeholder((64, 64), name=name) for name in "ab")
    k = te.reduce_axis((0, 64), name="k")
    near = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    far = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k))
    texts = [bounded_loops.bounded_kernel([a, b, c]).kernel.source for c in (near, far)]
    assert ["turned" in text for text in texts] == [False, True]


NARROW = {
    "an index in uint8": (
        "int32", lambda x, i: x + (i.astype("uint8") - te.const(3, "uint8")).astype("int32"),
        [253, 254, 255],
    ),
    "an index in int8": (
        "int32", lambda x, i: x + (i.astype("int8") * te.const(100, "int8")).astype("int32"),
        [0, 100, -56],
    ),
    "the largest uint64, divided": (
        "uint64", lambda x, i: te.floordiv(~x, te.const(5, "uint64")), [(2**64 - 1) // 5] * 3,
    ),
    "the largest uint64, its remainder": (
        "uint64", lambda x, i: te.floormod(~x, te.const(7, "uint64")), [1] * 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_references_compute_integers_in_their_dtype(name, tmp_path):
    dtype, body, wanted = NARROW[name]
    x = np.zeros(3, dtype)
    found = made(tmp_path, lambda x: te.compute((3,), lambda i: body(x[i], i)), x)
    np.testing.assert_array_equal(found.values, np.array(wanted, dtype))
