"""How far a result may be from its reference: rounding passes, mistakes do not."""

import ml_dtypes
import numpy as np
import pytest

from autotune.kernel import arg
from autotune.measure.check import compare
from autotune.measure.check.expected import Expected, most_spread
from autotune.measure.check.tolerance import Extent, Limit, Tolerance, reduction_length, tolerance

TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}
# Of the inputs, of the sums, of the result.
KINDS = [
    ("float32", "float32", "float32"),
    ("float64", "float64", "float64"),
    ("float16", "float32", "float16"),
    ("bfloat16", "float32", "bfloat16"),
    ("float16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "bfloat16"),
]
WIDE = [kind for kind in KINDS if kind[1] not in ("float16", "bfloat16")]


def mismatch(name, got, expected, allowed, **more):
    return compare.mismatch(name, got, allowed.expected(np.asarray(expected)), **more)


N = 32
SEEDS = range(3)


def products(dtype, terms, seed, least=-1.0):
    """The factors of a matrix product, and all that it sums, term after term."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(least, 1, (N, terms)).astype(TYPES[dtype]).astype("f8")
    b = rng.uniform(least, 1, (terms, N)).astype(TYPES[dtype]).astype("f8")
    return a, b, np.ascontiguousarray(a.T[:, :, None] * b[:, None, :])


def in_turn(terms, rounded, step=1):
    """``step`` terms are added exactly and rounded once; 1 is the plain loop."""
    total = np.zeros(terms.shape[1:])
    for k in range(0, len(terms), step):
        total = rounded(total + terms[k : k + step].sum(0))
    return total


def in_pairs(terms, rounded):
    while len(terms) > 1:
        terms = rounded(terms[0::2] + terms[1::2])
    return terms[0]


def in_lanes(terms, rounded):
    """As vector units, threads of a block and split reductions do."""
    return in_pairs(np.stack([in_turn(terms[i::8], rounded) for i in range(8)]), rounded)


def truncated(values):
    """Round towards zero to the 24 bits of float32, as the adders of tensor cores do."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.trunc(np.ldexp(mantissa, 24)), exponent - 24)


def honest(terms, sums):
    """The same sums in the orders and roundings of different machines."""

    def rounded(values):
        return values.astype(TYPES[sums]).astype("f8")

    core = truncated if sums == "float32" else rounded
    yield "plain loop", in_turn(terms, rounded)
    yield "lanes", in_lanes(terms, rounded)
    yield "pairs", in_pairs(terms, rounded)
    yield "tensor core of 8", in_turn(terms, core, 8)
    yield "tensor core of 16", in_turn(terms, core, 16)


def mistakes(a, b, terms):
    """What goes wrong in kernels; each yields what would be computed without rounding."""
    right = terms.sum(0)
    tile = max(1, len(terms) // 32)
    half = N // 2
    yield "zeros", np.zeros_like(right)
    yield "a tile of the sum dropped", right - terms[:tile].sum(0)
    yield "the factors off by one", np.roll(a, 1, 1) @ b
    for name, rows, columns, values in (
        ("a row left out", -1, slice(None), 0.0),
        ("a column off by one", slice(None), -1, right[:, -2]),
        ("tiles swapped", slice(half), slice(half), right[half:, half:]),
    ):
        wrong = right.copy()
        wrong[rows, columns] = values
        yield name, wrong
    wrong = right.copy()
    wrong[half:, half:] -= terms[-tile:, half:, half:].sum(0)
    yield "a tile of the sum dropped in a quarter", wrong
    yield "the last term dropped", right - terms[-1]


def judged(got, terms, sums, result):
    reference = terms.sum(0).astype(TYPES[result])
    allowed = tolerance(result, len(terms), sums)
    return mismatch("y", got.astype(TYPES[result]), reference, allowed)


@pytest.mark.many_cases
@pytest.mark.parametrize("terms", [16, 256, 4096])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_honest_rounding_passes(kind, terms):
    dtype, sums, result = kind
    for seed in SEEDS:
        parts = products(dtype, terms, seed)[2]
        refused = {name: judged(y, parts, sums, result) for name, y in honest(parts, sums)}
        assert not any(refused.values()), refused


@pytest.mark.many_cases
@pytest.mark.parametrize("terms", [16, 256, 4096])
@pytest.mark.parametrize("kind", WIDE, ids="-".join)
def test_every_mistake_is_found(kind, terms):
    dtype, sums, result = kind
    for seed in SEEDS:
        a, b, parts = products(dtype, terms, seed)
        passed = [n for n, y in mistakes(a, b, parts) if not judged(y, parts, sums, result)]
        assert not passed


@pytest.mark.parametrize(
    ("dtype", "terms"), [("float16", 16), ("float16", 1024), ("bfloat16", 64)]
)
def test_sums_in_16_bits_hide_a_single_term_at_most(dtype, terms):
    for seed in SEEDS:
        a, b, parts = products(dtype, terms, seed)
        passed = [n for n, y in mistakes(a, b, parts) if not judged(y, parts, dtype, dtype)]
        assert set(passed) <= {"the last term dropped"}


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", [k for k in KINDS if k[1] != "bfloat16"], ids="-".join)
@pytest.mark.parametrize("terms", [16, 4096])
def test_honest_sums_of_one_sign_pass(kind, terms):
    dtype, sums, result = kind
    parts = products(dtype, terms, 0, least=0.0)[2]
    refused = {name: judged(y, parts, sums, result) for name, y in honest(parts, sums)}
    assert not any(refused.values()), refused


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_little_more_is_allowed_than_honest_kernels_need(kind):
    dtype, sums, result = kind
    parts = products(dtype, 256, 0)[2]
    exact = parts.sum(0)
    size = np.sqrt(np.mean(exact**2))
    kernels = [y.astype(TYPES[result]).astype("f8") for _, y in honest(parts, sums)]
    worst = max(np.max(abs(y - exact) / np.maximum(abs(exact), size)) for y in kernels)
    mean = max(np.sqrt(np.mean((y - exact) ** 2)) / size for y in kernels)
    allowed, extent = tolerance(result, 256, sums), Extent(N * N, size, 0.0)
    assert allowed.worst.of(extent) < 20 * worst
    assert allowed.mean.of(extent) < 20 * mean


@pytest.mark.parametrize("terms", [64, 1024])
def test_a_single_sum_may_be_small_by_chance(terms):
    parts = products("float32", terms, 0)[2]
    right = parts.sum(0).astype("f4").ravel()
    got = dict(honest(parts, "float32"))["plain loop"].astype("f4").ravel()
    allowed = tolerance("float32", terms)
    alone = [mismatch("y", got[i : i + 1], right[i : i + 1], allowed) for i in range(len(got))]
    assert sum(map(bool, alone)) < 0.015 * len(alone)


def test_a_plain_sum_of_a_million_numbers_of_one_sign_passes():
    x = np.random.default_rng(0).uniform(-1, 1, 1 << 20).astype(np.float32)
    squares = (x * x).astype(np.float32)
    got = np.add.accumulate(squares)[-1:]  # one after another, unlike sum()
    exact = np.array([squares.astype("f8").sum()])
    assert abs(got[0] / exact[0] - 1) > 1000 * 2.0**-23
    assert mismatch("y", got, exact, tolerance("float32", 1 << 20)) is None


@pytest.mark.parametrize("terms", [1, 1024, 1 << 14, 1 << 20])
@pytest.mark.parametrize("sums", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("least", [-1, 0])
@pytest.mark.parametrize("size", [1, 64])
def test_zeros_never_pass(dtype, sums, terms, least, size):
    expected = np.random.default_rng(0).uniform(least, 1, size).astype(TYPES[dtype])
    assert mismatch("y", np.zeros_like(expected), expected, tolerance(dtype, terms, sums))


def test_a_result_says_what_was_taken_for_its_sums():
    parts = products("float16", 1024, 0)[2]
    got = in_turn(parts, lambda v: v.astype(np.float16).astype("f8"))
    told = judged(got, parts, None, "float16")
    assert "with sums in float32)" in told
    assert judged(got, parts, "float16", "float16") is None


def test_missing_terms_are_told_from_wrong_elements():
    parts = products("bfloat16", 4096, 0)[2]
    told = judged(parts.sum(0) - parts[-1], parts, None, "bfloat16")
    assert told.startswith("y: differs from the reference by 0.3")
    assert "in the root mean square, as if terms were missing (allowed: 0.18 with" in told


def test_integers_must_be_equal():
    expected = np.arange(12).reshape(3, 4)
    assert mismatch("y", expected, expected, tolerance("int32", 100)) is None
    off = expected.copy()
    off[1, 2] += 1
    told = mismatch("y", off, expected, tolerance("int32", 100))
    assert told.startswith("y: 1 of 12 elements differ from the reference, worst at [1, 2]: got 7")


@pytest.mark.parametrize("byte", [0xFF, 0xA5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_elements_that_were_not_written_are_counted(dtype, byte):
    expected = np.zeros(12, dtype)
    got = expected.copy()
    got[3:5] = np.full(2 * got.itemsize, byte, np.uint8).view(dtype)
    got[7] = 1
    told = mismatch("y", got, expected, tolerance(dtype, 1))
    start = (
        "y: 3 of 12 elements differ from the reference (2 are not written: does the grid reach "
        "them? is its role 'inout'?)"
    )
    assert told.startswith(start)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sums_that_begin_with_what_was_there_are_counted_where_that_is_no_value(dtype):
    expected = np.zeros(12, dtype)
    expected[0] = np.nan
    got = expected.copy()
    got[3:5] = np.nan
    told = mismatch("y", got, expected, tolerance(dtype, 1), fresh=True)
    assert "(2 are NaN: does it add to what it finds there? then its role is 'inout')" in told
    assert "are NaN" not in mismatch("y", got, expected, tolerance(dtype, 1))
    got[3:5] = 1
    assert "are NaN" not in mismatch("y", got, expected, tolerance(dtype, 1), fresh=True)


def test_bytes_tell_nothing_of_what_was_written():
    expected = np.zeros(12, "uint8")
    told = mismatch("y", expected - 1, expected, tolerance("uint8", 1))
    assert "not written" not in told


@pytest.mark.parametrize("other", [np.int64, np.uint64])
def test_large_integers_are_compared_in_all_their_digits(other):
    expected = np.full(8, 1 << 60, np.int64)
    got = expected.astype(other)
    assert mismatch("y", got, expected, tolerance("int64", 1)) is None
    got[3] += 1
    assert "got 1152921504606846977" in mismatch("y", got, expected, tolerance("int64", 1))
    assert mismatch("y", got, expected, Tolerance(Limit(0.0), atol=1.0)) is None


def test_truth_has_one_value():
    expected = np.array([True, False, True])
    assert mismatch("y", expected, expected, tolerance("bool", 1)) is None
    seven = np.array([7, 0, 1], np.uint8).view(np.bool_)
    assert "1 of 3" in mismatch("y", seven, expected, tolerance("bool", 1))


def test_what_was_never_written_shows():
    expected = np.ones(8, np.float32)
    got = np.full(8, np.nan, np.float32)
    assert "8 of 8" in mismatch("y", got, expected, tolerance("float32", 1))


def test_nan_and_infinity_are_right_where_the_reference_has_them():
    values = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert mismatch("y", values, values, tolerance("float32", 1)) is None
    for wrong in ([np.nan, np.inf, np.inf, 1.0], [1.0, np.inf, -np.inf, 1.0]):
        got = np.array(wrong, np.float32)
        assert "1 of 4" in mismatch("y", got, values, tolerance("float32", 1))


def test_the_worst_of_many_elements_is_named():
    expected = np.ones((3, 100_000), np.float32)
    got = expected.copy()
    got[0, 5], got[2, 99_998], got[2, 99_999] = 1.5, 4.0, 2.0
    told = mismatch("y", got, expected, tolerance("float32", 1))
    assert told.startswith("y: 3 of 300000 elements")
    assert "worst at [2, 99998]: got 4, expected 1 " in told


def test_a_wrong_shape_is_a_mismatch():
    assert "shape (2,)" in mismatch("y", np.ones(2), np.ones(3), Tolerance(Limit(1.0)))


def test_cancelled_elements_carry_the_error_of_their_terms():
    expected = np.array([1.0, 1e-9, -1.0])
    got = expected + 1e-6
    assert mismatch("y", got, expected, Tolerance(Limit(1e-5))) is None


def test_a_single_number_is_compared_too():
    one = np.array(1.0, np.float32)
    assert mismatch("y", one, one, tolerance("float32", 1)) is None
    assert "1 of 1" in mismatch("y", one + 1, one, tolerance("float32", 1))


def out(*shape):
    return arg("y", shape, role="out")


def test_reduction_length_is_guessed_from_the_operations():
    inputs = (arg("a", (64, 64)), arg("b", (64, 64)))
    assert reduction_length(2 * 64**3, out(64, 64), inputs) == 64
    assert reduction_length(10, out(64, 64), inputs) == 1
    # Each of several outputs may be the one that takes all the operations.
    assert reduction_length(2 * 64**3, out(64), inputs) == 64**2


def test_without_operations_reduction_length_is_guessed_from_the_arguments():
    product = (arg("a", (64, 1000)), arg("b", (1000, 32)))
    assert reduction_length(None, out(64, 32), product) == 1000
    assert reduction_length(None, out(64), (arg("a", (64, 1000)), arg("x", (1000,)))) == 1000
    assert reduction_length(None, out(64), (arg("a", (64, 1000)),)) == 1000
    assert reduction_length(None, out(1), (arg("a", (1000,)),)) == 1000
    assert reduction_length(None, out(64), (arg("a", (64,)),)) == 1
    assert reduction_length(None, out(64), ()) == 1


def test_limits_are_those_that_were_measured():
    eps = 2.0**-23
    found = tolerance("float32", 400)
    assert found.worst.stored == 6 * eps
    assert found.worst.summed == pytest.approx(eps * (16 + 2 * 20 + 400 / 16), rel=1e-12)
    assert found.mean.stored == eps
    assert found.mean.summed == pytest.approx(eps * (4 + 20 / 4 + 400 / 32), rel=1e-12)
    assert (found.worst.drift, found.mean.drift) == (0, 0)
    assert (found.worst.most, found.mean.most) == (0.9, 0.25)
    assert found.sums == ""


def test_limits_of_short_sums_drift_where_results_have_one_sign():
    stored, sums = 2.0**-10, 2.0**-7
    found = tolerance("float16", 400, "bfloat16")
    assert found.worst == Limit(6 * stored, sums * (16 + 40), sums * 400 / 16, 0.9)
    assert found.mean == Limit(stored, sums * (4 + 5), sums * 400 / 32, 0.25)
    assert found.sums == "bfloat16"
    assert tolerance("float16", 400).sums == "float32"
    assert tolerance("float16", 4, "int32").sums == "float32"
    assert tolerance("float16", 0).worst == tolerance("float16", 1).worst


def test_what_a_limit_is_depends_on_how_many_values_there_are_and_on_their_signs():
    limit = Limit(stored=0.01, summed=0.1, drift=0.2, most=0.5)
    assert limit.of(Extent(1 << 60, 1.0, 0.0)) == pytest.approx(0.11)
    assert limit.of(Extent(1 << 60, 1.0, 0.5)) == pytest.approx(0.21)
    assert limit.of(Extent(16, 1.0, 0.0)) == pytest.approx(0.01 + 0.1 * 2)
    assert limit.of(Extent(1, 1.0, 0.0)) == 0.5


def test_bounds_follow_elements_and_the_size_of_all():
    values = np.array([3.0, -4.0, 0.0, np.nan, np.inf])
    size = np.sqrt(25 / 3)
    found = Tolerance(Limit(0.1), Limit(0.02), atol=0.5).expected(values)
    wanted = [0.1 * 3 + 0.5, 0.1 * 4 + 0.5, 0.1 * size + 0.5, 0.1 * size + 0.5, 0.1 * size + 0.5]
    assert np.allclose(found.bounds, wanted, rtol=1e-6)
    assert found.spread == pytest.approx(0.2)
    assert found.basis == ""
    assert Tolerance(Limit(0.1), sums="float16").expected(values).basis == "with sums in float16"
    assert Tolerance(Limit(0.1)).expected(values).spread == 1.0
    assert Tolerance(Limit(0.0)).expected(values).bounds is None
    assert np.all(Tolerance(Limit(0.0), atol=2.0).expected(values).bounds == 2)
    assert Tolerance(Limit(0.1), Limit(0.3)).expected(values).spread == 1.0
    one_sign = Tolerance(Limit(0.0, 0.0, 0.1)).expected(np.full(10**6, 2.0)).bounds
    both = Tolerance(Limit(0.0, 0.0, 0.1)).expected(np.array([2.0, -2.0] * 5))
    assert one_sign[0] == pytest.approx(0.2, rel=0.01)
    assert both.bounds is None


def test_the_root_mean_square_has_its_limit():
    right = np.zeros(10_000, np.float32)
    found = Expected(right, np.ones(10_000, np.float32), 0.5)
    limit = 0.5 * (1 + 2 / 100)
    assert compare.mismatch("y", right + np.float32(limit - 1e-3), found) is None
    assert "root mean square" in compare.mismatch("y", right + np.float32(limit + 1e-3), found)
    assert compare.mismatch("y", right + np.float32(1), Expected(right, found.bounds, 1.0)) is None
    assert compare.mismatch("y", right + np.float32(1.001), Expected(right, found.bounds, 1.0))
    # Elements without a bound, or without a limit to it, do not count.
    bounds = np.array([0.0, np.inf] * 4999 + [1.0, 1.0], np.float32)
    got = np.zeros(10_000, np.float32)
    got[-2:] = 0.9
    assert compare.mismatch("y", got, Expected(right, bounds, 0.5)) is None
    assert most_spread(0.3, 0) == 1.0
    assert most_spread(0.3, 4) == pytest.approx(0.6)
