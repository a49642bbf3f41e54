"""Single accesses and 8-bit floats in PTX: what they compute, and which are not known."""

import zlib

import ml_dtypes
import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import DeviceError
from tests.emulator.ptx_accesses import KERNELS
from tests.emulator.test_ptx import run

# CRC-32 of the words that each kernel writes, as an H200 computed them.
ON_A_DEVICE = {
    "fp8-of-floats": 1304715236,
    "fp8-of-halves": 3650773740,
    "halves-of-fp8": 2842094818,
    "atomics": 733159949,
    "loads-and-stores": 661336561,
}
FORMS = [(dtype, relu) for relu in (0, 1) for dtype in ("float8_e4m3fn", "float8_e5m2")]


def results(name):
    a, b = KERNELS[name].arrays()
    run_emulated(KERNELS[name].source().kernel("cuda"), [a, b], (0, 5))
    return a, b


@pytest.mark.parametrize("name", KERNELS)
def test_an_instruction_computes_what_a_device_did(name):
    _, b = results(name)
    assert zlib.crc32(b[b != 0xFFFFFFFF].tobytes()) == ON_A_DEVICE[name]


def codes(x, dtype, relu):
    """Returns codes of 8-bit floats; what is not a number has neither sign nor digits."""
    x = np.where(x <= 0, 0.0, x) if relu else x
    most = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(invalid="ignore"):
        found = np.clip(x, -most, most).astype("float32").astype(dtype).view("uint8")
    return np.where(np.isnan(x), 0x7F, found).astype("uint32")


@pytest.mark.parametrize("source", ["floats", "halves"])
def test_pairs_are_rounded_to_8_bits_and_saturate(source):
    a, b = results(f"fp8-of-{source}")
    if source == "floats":
        x = a[:256].view("float32").astype("f8").reshape(128, 2)
    else:
        x = a[:128].view("float16").astype("f8").reshape(128, 2)[:, ::-1]
    for number, (dtype, relu) in enumerate(FORMS):
        high, low = codes(x, dtype, relu).T
        np.testing.assert_array_equal(b[128 * number : 128 * (number + 1)], high << 8 | low)


def test_all_codes_of_8_bits_become_halves():
    _, b = results("halves-of-fp8")
    low = np.arange(256, dtype="uint8")
    for number, (dtype, relu) in enumerate(FORMS):
        found = b[256 * number : 256 * (number + 1)].view("float16").reshape(256, 2)
        for half, code in ((0, low), (1, low[::-1])):
            wanted = code.view(dtype).astype("float32")
            wanted = np.where(wanted < 0, 0, wanted) if relu else wanted
            np.testing.assert_array_equal(found[:, half], wanted)


def test_atomic_operations_give_what_was_there_and_leave_what_they_make_of_it():
    a, b = results("atomics")
    other, signed = a[:32], a[:32].view("int32")

    def made(k, old):
        s = old.view("int32")
        return [
            old + other, np.minimum(s, signed), np.maximum(old, other), old & other, old | other,
            old ^ other, np.where(old >= other, 0, old + 1),
            np.where((old == 0) | (old > other), other, old - 1), other, np.maximum(s, signed),
            np.minimum(old, other),
        ][k]  # fmt: skip

    for k in range(11):
        old = a[32 * k : 32 * k + 32]
        np.testing.assert_array_equal(b[64 * k : 64 * k + 32], made(k, old).astype("uint32"))
        np.testing.assert_array_equal(b[64 * k + 32 : 64 * k + 64], old)
    np.testing.assert_array_equal(b[768:832].view("uint64"), other.astype("uint64") * 4)
    np.testing.assert_array_equal(b[832:864].view("float32"), 0.5)
    lane = np.arange(32)
    np.testing.assert_array_equal(b[864:896], np.where(lane < 8, 99, lane))
    np.testing.assert_array_equal(b[896:928], lane)
    sums = other.reshape(8, 4).sum(0, dtype="uint32")
    np.testing.assert_array_equal(b[928:932], np.maximum(sums, 7))


def test_loads_widen_and_stores_narrow():
    a, b = results("loads-and-stores")
    rows, lane = a[:128].reshape(32, 4), np.arange(32, dtype="uint32")
    of_bytes = rows.view("uint8").reshape(32, 16)
    wanted = [
        of_bytes[:, 1].view("int8").astype("int32").view("uint32"), of_bytes[:, 0],
        rows.view("int16")[:, 1].astype("int32").view("uint32"),
        rows[:, 0] + rows[:, 1] * rows[:, 2] - rows[:, 3],
        rows[:, 0] >> 16 | rows[:, 1] << 16, rows[:, 0], rows[:, 0],
    ]  # fmt: skip
    for k, each in enumerate(wanted):
        np.testing.assert_array_equal(b[32 * k : 32 * k + 32], each)
    np.testing.assert_array_equal(b[224:288], np.stack([lane, ~lane], 1).ravel())
    np.testing.assert_array_equal(b[288:320], (lane + 1000 & 255) << 8)
    np.testing.assert_array_equal(b[320:352], (lane ^ 5) * 3)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.noftz.f16x2 %0, [%1], %2;",
        "atom.global.min.f32 %0, [%1], %2;",
        "atom.global.add.b32 %0, [%1], %2;",
        "red.global.exch.b32 [%1], %2;",
        "ld.release.gpu.global.u32 %0, [%1];",
        "ld.global.v8.u32 %0, [%1];",
        "ld.param.u32 %0, [%1];",
        "st.acquire.gpu.global.u32 [%1], %2;",
        "ld.global.L2::cache_hint.u32 %0, [%1], %2;",
        "cvt.rn.satfinite.e2m1x2.f32 %0, %2, %2;",
    ],
)
def test_an_access_that_is_not_known_is_named(text):
    name = text.split()[0].replace(".", r"\.")
    with pytest.raises(DeviceError, match=f"the emulator does not know `{name}` in inline PTX at"):
        run(f'unsigned w = 0; asm volatile("{text}" : "+r"(w) : "l"(b), "r"(t)); b[t] = w;')


def test_an_access_out_of_bounds_is_reported_with_its_line():
    with pytest.raises(
        DeviceError, match=r"reads 4 bytes out of bounds at entry\.cu:\d+: byte 40"
    ):
        run('unsigned w; asm("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(a + 1024 + t)); b[t] = w;')
