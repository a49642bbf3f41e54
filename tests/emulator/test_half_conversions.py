"""Conversions that round in one direction, and comparisons of what is no number."""

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.test_language import run

DTYPES = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16}
TYPES = {"half": "__half", "bfloat16": "__nv_bfloat16"}
VALUES = np.array(
    [
        *(0.1, -0.1, 1e-8, -1e-8, 1e-30, 65504, 65505, 65519, 65520, 1e30, -1e30, 3.3e38),
        *(-3.3e38, 1.0, 2049, -2049, 0.0, 1e-45, -1e-45, 6e-8, 1 / 3, -1 / 3, np.inf, -np.inf),
        *(6.1e-5, 1.0009),
    ],
    "float32",
)


def computed(expression, given, ctype):
    text = f"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void f(const {ctype}* a, float* out) {{
  {ctype} x = a[threadIdx.x];
  out[threadIdx.x] = {expression};
}}"""
    out = np.zeros(given.size, "float32")
    return run(text, [given, out], orders=(0,), block=given.size)


def finite(name):
    """Return all numbers of a type, without those that are infinite."""
    all_there_are = np.arange(2**16, dtype=np.uint16).view(DTYPES[name])
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        known = all_there_are.astype("float64")
    return np.unique(known[np.isfinite(known)])


def neighbours(name, values):
    """Return the greatest numbers of a type that are not above values, the least not below."""
    known = np.array([-np.inf, *finite(name), np.inf])
    exact = values.astype("float64")
    below = known[np.searchsorted(known, exact, "right") - 1]
    return below, known[np.searchsorted(known, exact, "left")]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("source", ["float", "int"])
def test_conversions_round_in_the_direction_of_their_name(name, source):
    given = VALUES
    if source == "int":
        given = np.array([0, 1, -1, 2049, -2049, 70000, -70000, 2**31 - 1, -(2**31), 257], "int32")
    below, above = neighbours(name, given)
    expected = {"rd": below, "ru": above, "rz": np.where(given < 0, above, below)}
    for direction, wanted in expected.items():
        call = f"float(__{source}2{name}_{direction}(x))"
        np.testing.assert_array_equal(computed(call, given, source), wanted.astype("float32"))


# By name: numbers of which most are not floats, and how C writes them.
LARGE = {
    "ll": ([2**40 + 2**32 + 1, -(2**40) - 2**32 - 1, 65519, -65521], "ll"),
    "ull": ([2**63 + 2**55 + 1, 2**64 - 1, 65519, 1], "ull"),
}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("source", LARGE)
def test_whole_numbers_of_64_bits_round_in_the_direction_too(name, source):
    (a, b, c, d), suffix = LARGE[source]
    known = [*map(int, finite(name))]
    text = f"(x < 1 ? {a}{suffix} : x < 2 ? {b}{suffix} : x < 3 ? {c}{suffix} : {d}{suffix})"
    for direction in ("rz", "rd", "ru"):
        call = f"float(__{source}2{name}_{direction}({text}))"
        found = computed(call, np.arange(4, dtype="float32"), "float")
        for n, got in zip((a, b, c, d), found, strict=True):
            down = direction == "rd" or (direction == "rz" and n > 0)
            beyond = [m for m in known if (m <= n if down else m >= n)]
            wanted = (max(beyond) if down else min(beyond)) if beyond else np.copysign(np.inf, n)
            assert got == wanted, (direction, n)


@pytest.mark.parametrize("ctype", TYPES.values())
def test_numbers_are_made_of_each_unsigned_type(ctype):
    for kind in ("unsigned short", "unsigned long", "unsigned long long"):
        assert computed(f"float({ctype}(({kind})x))", np.array([200], "int32"), "int") == [200]


PAIRS = [("1.0f", "1.0f"), ("1.0f", "2.0f"), ("2.0f", "1.0f"), ("NAN", "1.0f"), ("NAN", "NAN")]
# What holds of equal, of less, of greater numbers, and where one of them is none.
COMPARISONS = {
    "eq": (1, 0, 0, 0), "ne": (0, 1, 1, 0), "lt": (0, 1, 0, 0), "ge": (1, 0, 1, 0),
    "equ": (1, 0, 0, 1), "neu": (0, 1, 1, 1), "ltu": (0, 1, 0, 1), "leu": (1, 1, 0, 1),
    "gtu": (0, 0, 1, 1), "geu": (1, 0, 1, 1),
}  # fmt: skip


def calls_of(comparison, name):
    """Yield what compares each of `PAIRS`: numbers, and pairs of numbers in three ways."""
    pair = f"{TYPES[name]}2"
    for a, b in [(f"{TYPES[name]}({a})", f"{TYPES[name]}({b})") for a, b in PAIRS]:
        yield f"__h{comparison}({a}, {b})"
        both = f"({pair}({a}, {a}), {pair}({b}, {b}))"
        yield f"float(__h{comparison}2{both}.y) != 0"
        yield f"__hb{comparison}2{both}"
        yield f"__h{comparison}2_mask{both} == 0xFFFFFFFFu"


@pytest.mark.parametrize("name", DTYPES)
def test_comparisons_are_ordered_unless_they_are_called_unordered(name):
    calls = [call for comparison in COMPARISONS for call in calls_of(comparison, name)]
    said = [[*holds, holds[3]] for holds in COMPARISONS.values()]
    lines = "".join(f"  out[{i}] = {call};\n" for i, call in enumerate(calls))
    text = f"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void f(float* out) {{
{lines}}}"""
    found = run(text, [np.zeros(len(calls), "float32")], orders=(0,))
    wrong = found != np.repeat(np.ravel(said), 4)
    assert not wrong.any(), [call for call, is_wrong in zip(calls, wrong, strict=True) if is_wrong]


@pytest.mark.parametrize("name", DTYPES)
def test_extremes_are_no_numbers_only_where_that_is_asked_for(name):
    a, b = f"{TYPES[name]}(NAN)", f"{TYPES[name]}(x)"
    x = np.array([3.0], "float32")
    for extreme in ("max", "min"):
        assert computed(f"float(__h{extreme}({a}, {b}))", x, "float") == [3]
        assert np.isnan(computed(f"float(__h{extreme}_nan({a}, {b}))", x, "float"))
        assert computed(f"float(__h{extreme}_nan({b}, {b}))", x, "float") == [3]


@pytest.mark.parametrize("name", DTYPES)
def test_the_zero_with_a_minus_is_the_smaller_one(name):
    zeros = np.array([0.0, -0.0], "float32")
    one, other = f"{TYPES[name]}(x)", f"{TYPES[name]}(-x)"
    for extreme, is_minus in (
        ("max", False),
        ("min", True),
        ("max_nan", False),
        ("min_nan", True),
    ):
        found = computed(f"float(__h{extreme}({one}, {other}))", zeros, "float")
        assert np.signbit(found).tolist() == [is_minus] * 2, extreme


def test_doubles_and_whole_numbers_are_rounded_once():
    above = np.array([-1, 0, 1], "int32")  # of a number in the middle of two others
    for expression, expected in {
        "__half2float(__double2half(1.0 + 0x1p-11 + 0x1p-40 * x))": [1, 1, 1 + 2**-10],
        "__half2float(__half(1.0 + 0x1p-11 + 0x1p-40 * x))": [1, 1, 1 + 2**-10],
        "__bfloat162float(__double2bfloat16(1.0 + 0x1p-8 + 0x1p-40 * x))": [1, 1, 1 + 2**-7],
        "__bfloat162float(__ll2bfloat16_rn((1ll << 40) + (1ll << 32) + x))": [
            *(2.0**40, 2.0**40, 2.0**40 + 2.0**33)
        ],
        "__bfloat162float(__double2bfloat16(x * 1e300))": [-np.inf, 0, np.inf],
        "__half2float(__double2half(x * 1e-300))": [0, 0, 0],
    }.items():
        assert computed(expression, above, "int").tolist() == expected, expression


def test_infinities_tell_their_sign():
    found = computed(
        "__hisinf(__half(x))", np.array([np.inf, -np.inf, 1, np.nan], "float32"), "float"
    )
    assert found.tolist() == [1, -1, 0, 0]


@pytest.mark.parametrize("to", ["int", "ll"])
@pytest.mark.parametrize("source", ["float", "double"])
def test_integers_are_rounded_in_the_direction_of_their_name(source, to):
    given = np.array([-2.9, -2.5, -2.1, 2.1, 2.5, 2.9, -0.5, 0.5, 3.5], "float32")
    functions = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
    for direction, function in functions.items():
        found = computed(f"__{source}2{to}_{direction}(x)", given, "float")
        np.testing.assert_array_equal(found, function(given))
