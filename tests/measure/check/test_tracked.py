"""References written in numpy carry bounds: honest kernels are within them, mistakes are not."""

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from autotune.measure.check.compare import mismatch
from autotune.measure.check.expected import expected
from autotune.measure.check.precision import NotTracked, Work
from autotune.measure.check.tracked import Tracked
from autotune.measure.check.tracked_reference import round_to_output, track_errors
from tests.measure.check.test_tolerance import honest, in_turn, mistakes, products

RNG = np.random.default_rng(0)


def followed(reference, *arrays, dtype="float32", sums=None):
    """What a reference says a kernel shall write."""
    work = Work(sums, "float64" if "float64" in (dtype, *(a.dtype for a in arrays)) else "float32")
    made = reference(*(track_errors(a, a.dtype.name, work) for a in arrays))
    return expected(*round_to_output(made, dtype), dtype)


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


KINDS = [
    ("float32", "float32", "float32"),
    ("float16", "float32", "float16"),
    ("bfloat16", "float32", "bfloat16"),
    ("float16", "float32", "float32"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("least", [-1.0, 0.0])
@pytest.mark.parametrize("terms", [16, 256, 4096])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_honest_sums_pass_and_mistakes_do_not(kind, terms, least):
    dtype, sums, result = kind
    a, b, parts = products(dtype, terms, 0, least)
    made = followed(
        lambda x, y: x @ y, a.astype(_type(dtype)), b.astype(_type(dtype)), dtype=result
    )
    refused = {
        name: mismatch("y", y.astype(_type(result)), made) for name, y in honest(parts, sums)
    }
    assert not any(refused.values()), refused
    if least < 0:
        wrong = [(n, y.astype(_type(result))) for n, y in mistakes(a, b, parts)]
        assert not [n for n, y in wrong if mismatch("y", y, made) is None]


def _type(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def test_sums_in_16_bits_must_be_said():
    a, b, parts = products("float16", 1024, 0)
    a, b = a.astype("f2"), b.astype("f2")
    got = in_turn(parts, lambda v: v.astype(np.float16).astype("f8")).astype("f2")
    assert mismatch("y", got, followed(lambda x, y: x @ y, a, b, dtype="float16"))
    declared = followed(lambda x, y: x @ y, a, b, dtype="float16", sums="float16")
    assert mismatch("y", got, declared) is None


@pytest.mark.parametrize("columns", [5, 1000, 4096, 50257])
def test_softmaxes_of_other_formulas_pass(columns):
    x = RNG.uniform(-1, 1, (8, columns)).astype("f4")
    made = followed(softmax, x)
    scaled = (x - x.max(1, keepdims=True)) * np.float32(1.442695)
    powers = np.exp2(scaled).astype("f4")
    for total in (np.add.accumulate(powers, 1)[:, -1:], powers.sum(1, keepdims=True)):
        got = powers * (np.float32(1) / total)
        assert mismatch("y", got, made) is None
        assert mismatch("y", got * np.float32(1.001), made)


def test_a_softmax_that_misses_a_term_is_found():
    x = RNG.uniform(-1, 1, (64, 4096)).astype("f4")
    made = followed(softmax, x)
    assert mismatch("y", softmax(x), made) is None
    less = x.copy()
    less[:, 17] = -50
    wrong = softmax(less)
    wrong[:, 17] = softmax(x)[:, 17]
    assert mismatch("y", wrong, made)


@pytest.mark.parametrize("least", [-1.0, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_cumulative_sums_of_long_rows_pass_in_any_order_and_a_lost_term_does_not(dtype, least):
    x = np.random.default_rng(3).uniform(least, 1, (6, 4096)).astype(_type(dtype))
    made = followed(lambda x: np.cumsum(x, axis=1), x, dtype=dtype)
    wide = x.astype("f4")
    parts = np.cumsum(wide.reshape(6, 64, 64), axis=2, dtype="f4")
    before = np.cumsum(parts[:, :, -1:], axis=1, dtype="f4") - parts[:, :, -1:]
    for sums in (np.cumsum(wide, axis=1, dtype="f4"), (parts + before).reshape(6, 4096)):
        assert mismatch("y", sums.astype(_type(dtype)), made) is None
    if dtype == "float32":
        wide[:, 2000] = 0
        assert mismatch("y", np.cumsum(wide.astype("f8"), axis=1).astype("f4"), made)


def test_what_follows_an_infinity_in_a_cumulative_sum_is_certain():
    x = np.array([[0.1, np.inf, 0.3, -np.inf, 0.2]], np.float32)
    with np.errstate(invalid="ignore"):
        made = followed(lambda x: np.cumsum(x, axis=1), x)
        assert mismatch("y", np.cumsum(x, axis=1), made) is None
        assert mismatch("y", np.cumsum(np.abs(x), axis=1), made)


def test_what_numpy_offers_is_followed():
    x, w = RNG.uniform(-1, 1, (3, 4, 9)).astype("f4"), RNG.uniform(-1, 1, (4, 5)).astype("f4")
    references = [
        lambda x, w: np.einsum("nck,cd->nkd", x, w),
        lambda x, w: np.maximum(x.transpose(0, 2, 1) @ w, 0).mean(axis=(0, 1)),
        lambda x, w: np.pad(x, ((0, 0), (1, 1), (0, 0)))[:, ::2].reshape(3, -1).sum(1),
        lambda x, w: np.concatenate([x, -x], axis=1).max(axis=1),
        lambda x, w: np.concatenate(np.split(x, 3, axis=2), axis=1).sum(axis=1),
        lambda x, w: np.where(np.arange(9) > 3, np.exp(x), x * 2.5).clip(-1, 2),
        lambda x, w: np.sqrt(np.square(x) + 1.0) / (1 + np.exp(-x)),
        lambda x, w: np.tanh(x) ** 3 - np.log1p(np.abs(x)),
        lambda x, w: np.lib.stride_tricks.sliding_window_view(x, 3, axis=2).sum(axis=-1),
    ]
    for reference in references:
        wide = reference(x.astype("f8"), w.astype("f8"))
        made = followed(reference, x, w)
        assert np.allclose(made.values, wide, rtol=1e-6, atol=1e-7)
        assert mismatch("y", np.asarray(reference(x, w)).astype("f4"), made) is None
        bounds = np.zeros(1) if made.bounds is None else made.bounds
        off = np.nextafter(made.values + 20 * bounds, np.float32(9), dtype="f4")
        assert mismatch("y", off, made)


@pytest.mark.parametrize(
    "reference",
    [
        np.asarray, float, lambda x: np.linalg.norm(x),
        lambda x: np.sort(x), lambda x: x.astype(int), lambda x: x + 1j, lambda x: np.frexp(x),
        lambda x: np.where(x * x > x * x / 3 * 3, x, 0), lambda x: x**0.5,
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(reference):
    x = track_errors(np.array([0.3, 0.7], np.float32), "float32", Work())
    with pytest.raises((NotTracked, TypeError, AttributeError)):
        assert isinstance(reference(x), Tracked)


def test_a_comparison_that_is_certain_is_followed():
    made = followed(lambda x: np.where(x > 0, x, 0.5), np.array([0.3, -0.7], np.float32))
    assert made.values[1] == 0.5


def test_integers_stay_integers_that_a_reference_may_change():
    counts = np.arange(3)
    given = track_errors(counts, "int64", Work())
    given -= 1
    assert given.tolist() == [-1, 0, 1]
    assert counts.tolist() == [0, 1, 2]


A, B = RNG.standard_normal((2, 64, 512)).astype("f4")
COUNTS = RNG.integers(1, 10, 512).astype("i4")
SCALES = RNG.random(512)


@pytest.mark.parametrize(
    ("reference", "arrays"),
    [
        (lambda a, b: a.astype("f8") @ b.astype("f8").T, (A, B)),
        (lambda a, b: (a.astype("f8") @ b.T).astype("f4"), (A, B)),
        (lambda a, b: (a * np.float64(1)) @ b.T, (A, B)),
        (lambda a: (a * SCALES).sum(1), (A,)),
        (lambda a, counts: (a * counts).sum(1), (A, COUNTS)),
        (lambda a, counts: a @ counts, (A, COUNTS)),
    ],
)
def test_a_reference_that_is_exact_does_not_refuse_sums_in_the_kernels_dtype(reference, arrays):
    made = followed(reference, *arrays)
    plain = [a.astype("f4") for a in arrays]
    terms = plain[0][:, None, :] * (plain[1][None] if len(plain) > 1 else SCALES.astype("f4"))
    got = np.cumsum(terms, -1, dtype="f4")[..., -1].reshape(made.values.shape)
    assert mismatch("y", got, made) is None
    got.flat[-1] *= 1.01
    assert mismatch("y", got, made)


@pytest.mark.parametrize("scale", [1, 0.125])
def test_what_is_masked_by_infinity_leaves_the_rest_checked(scale):
    x = RNG.standard_normal((64, 64)).astype("f4")
    mask = np.where(np.tri(64) > 0, 0, -np.inf).astype("f4")
    lower = np.tri(64) > 0
    references = [
        (lambda x, m: softmax((x + m) * scale), (x, mask)),
        (lambda x: softmax(np.where(lower, x, -np.inf) / (1 / scale)), (x,)),
    ]
    for reference, arrays in references:
        made = followed(reference, *arrays)
        right = made.values.copy()
        assert mismatch("y", right, made) is None
        assert np.isfinite(made.bounds).all()
        right[1, 0] *= 1.01
        assert mismatch("y", right, made)


def test_a_device_may_flush_what_is_too_small_for_its_dtype():
    made = followed(lambda x: x * 1e-40, np.array([0.5, -0.25], "f4"))
    assert mismatch("y", np.zeros(2, "f4"), made) is None
    assert mismatch("y", np.full(2, 1e-37, "f4"), made)


def test_a_loop_over_elements_is_not_followed_for_long():
    with pytest.raises(NotTracked):
        followed(lambda x: sum(x[i] * x[i] for i in range(x.size)), np.ones(10**5, "f4"))


FUNCTIONS = {
    "tensordot": lambda x: np.tensordot(x, x, axes=([1], [1])),
    "swapaxes": lambda x: x.swapaxes(0, 1) * 3,
    "split": lambda x: np.concatenate(np.split(x, 4, axis=1)[::-1], axis=1) + 1,
    "ndtr": lambda x: special.ndtr(-4 * x),
    "erf": special.erf,
    "expit": special.expit,
    "a masked row": lambda x: np.where(np.isinf(x.max(axis=1, keepdims=True)), 0, x) + len(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_followed_closely(name):
    x = RNG.standard_normal((16, 64)).astype(np.float32)
    made = followed(FUNCTIONS[name], x)
    got = FUNCTIONS[name](x).astype(np.float32)
    assert mismatch("y", got, made) is None
    assert mismatch("y", got + np.float32(1e-4), made) is not None
