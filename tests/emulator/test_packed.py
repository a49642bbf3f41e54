"""Functions on the parts of a word compute each by itself, as those of CUDA do."""

import numpy as np
import pytest

from tests.emulator.test_language import run

N = 64
A = (np.arange(N, dtype=np.uint64) * 2654435761 % 2**32).astype("uint32")
B = (np.arange(N, dtype=np.uint64) * 40503 * 77777 % 2**32 + 9).astype("uint64")
B = (B % 2**32).astype("uint32")


def lanes(word, bits, signed):
    """Return the parts of words, each widened."""
    return word.view(f"{'int' if signed else 'uint'}{bits}").reshape(len(word), -1).astype("int64")


def packed(parts, bits):
    return (parts % 2**bits).astype(f"uint{bits}").view("uint32").ravel()


def clipped(value, bits, signed):
    most = 2 ** (bits - signed) - 1
    return np.clip(value, -most - 1 if signed else 0, most)


PARTS = {
    "__vadd": lambda x, y, bits, signed: clipped(x + y, bits, signed),
    "__vsub": lambda x, y, bits, signed: clipped(x - y, bits, signed),
    "__vavg": lambda x, y, bits, signed: (x + y + (x + y >= 0)) >> 1,
    "__vseteq": lambda x, y, bits, signed: x == y,
    "__vsetne": lambda x, y, bits, signed: x != y,
    "__vsetgt": lambda x, y, bits, signed: x > y,
    "__vsetge": lambda x, y, bits, signed: x >= y,
    "__vsetlt": lambda x, y, bits, signed: x < y,
    "__vsetle": lambda x, y, bits, signed: x <= y,
}
NAMED = [
    *(("__vadd", f"{sign}s") for sign in "su"), *(("__vsub", f"{sign}s") for sign in "su"),
    ("__vavg", "s"), ("__vavg", "u"), ("__vseteq", ""), ("__vsetne", ""),
    *((f"__vset{name}", sign) for name in ("gt", "ge", "lt", "le") for sign in "su"),
]  # fmt: skip


def computed(expression):
    text = f"""extern "C" __global__ void f(const unsigned* a, const unsigned* b, unsigned* out) {{
  unsigned x = a[threadIdx.x], y = b[threadIdx.x];
  out[threadIdx.x] = {expression};
}}"""
    return run(text, [A, B, np.zeros(N, "uint32")], orders=(0,), block=N)


@pytest.mark.parametrize(("name", "suffix"), NAMED, ids=["".join(one) for one in NAMED])
def test_each_part_is_computed_by_itself(name, suffix):
    signed = suffix.startswith("s")
    for bits, count in ((16, 2), (8, 4)):
        x, y = (lanes(word, bits, signed) for word in (A, B))
        expected = packed(np.int64(PARTS[name](x, y, bits, signed)), bits)
        np.testing.assert_array_equal(computed(f"{name}{suffix}{count}(x, y)"), expected)


@pytest.mark.parametrize("signed", [True, False])
def test_differences_of_halves_are_added(signed):
    x, y = (lanes(word, 16, signed) for word in (A, B))
    found = computed(f"__vsad{'s' if signed else 'u'}2(x, y)")
    np.testing.assert_array_equal(found, abs(x - y).sum(1))


def test_the_least_number_has_an_opposite_that_is_limited():
    for bits, count in ((16, 2), (8, 4)):
        least = 2 ** (bits - 1)
        x = lanes(A | (least if bits == 16 else 128), bits, True)
        given = f"(x | {least:#x}u)"
        for name, value in (("__vnegss", -x), ("__vabsss", abs(x))):
            expected = packed(np.minimum(value, least - 1), bits)
            np.testing.assert_array_equal(computed(f"{name}{count}{given}"), expected)


def test_averages_of_signed_numbers_are_rounded_as_on_an_h200():
    found = [
        computed(f"__vavgs{count}(x, y)")[[1, 5, 6, 7, 8, 9, 14]].tolist() for count in (2, 4)
    ]
    assert [found[0][0], *found[0][4:]] == [2902286033, 3891197540, 2498516273, 4125208364]
    assert found[1][:4] == [2902286032, 3774175745, 250787917, 1005590297]
