"""The 8-bit floats of `cuda_fp8.h`, beside their definition and the header of the CUDA toolkit."""

import ctypes
import subprocess

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from autotune.utils.environment import toolkit_roots

# Bits of fraction, bias, and the codes of the largest number and of what is above it.
FORMATS = {"E4M3": (3, 7, 0x7E, 0x7F), "E5M2": (2, 15, 0x7B, 0x7C)}
# What both headers compile; each number and each code has a row of results.
TEXT = """#include <cuda_fp8.h>
#include <math.h>
#include <string.h>
template <class T, class V> static inline void put(unsigned char*& out, V value) {
  T exact = static_cast<T>(value);
  memcpy(out, &exact, sizeof exact);
  out += sizeof exact;
}
template <class One, class Two, class Four>
static inline void narrow(double x, double y, __nv_fp8_interpretation_t as, unsigned char* out) {
  typedef unsigned char B;
  typedef unsigned short W;
  const float f = static_cast<float>(x), g = static_cast<float>(y);
  const __half h = __float2half(f);
  const __nv_bfloat16 b = __float2bfloat16(f);
  const __half2 hs = __floats2half2_rn(f, g);
  const __nv_bfloat162 bs = __floats2bfloat162_rn(f, g);
  const float2 fs = make_float2(f, g);
  const double2 ds = make_double2(x, y);
  for (int sat = 0; sat < 2; ++sat) {
    const __nv_saturation_t s = sat ? __NV_SATFINITE : __NV_NOSAT;
    put<B>(out, __nv_cvt_double_to_fp8(x, s, as));
    put<B>(out, __nv_cvt_float_to_fp8(f, s, as));
    put<B>(out, __nv_cvt_halfraw_to_fp8(h, s, as));
    put<B>(out, __nv_cvt_bfloat16raw_to_fp8(b, s, as));
    put<W>(out, __nv_cvt_double2_to_fp8x2(ds, s, as));
    put<W>(out, __nv_cvt_float2_to_fp8x2(fs, s, as));
    put<W>(out, __nv_cvt_halfraw2_to_fp8x2(hs, s, as));
    put<W>(out, __nv_cvt_bfloat16raw2_to_fp8x2(bs, s, as));
  }
  put<B>(out, One(x).__x), put<B>(out, One(f).__x);
  put<B>(out, One(h).__x), put<B>(out, One(b).__x);
  put<W>(out, Two(ds).__x), put<W>(out, Two(fs).__x);
  put<W>(out, Two(hs).__x), put<W>(out, Two(bs).__x);
  put<unsigned>(out, Four(make_float4(f, g, g, f)).__x);
  put<unsigned>(out, Four(hs, hs).__x);
  put<unsigned>(out, Four(bs, bs).__x);
  if (fabs(x) < 1e6 && fabs(y) < 1e6)
    put<B>(out, One(static_cast<int>(x)).__x), put<B>(out, One(static_cast<long long>(y)).__x);
}
template <class One, class Two, class Four>
static inline void widen(int code, __nv_fp8_interpretation_t as, unsigned char* out) {
  One one;
  Two two;
  Four four;
  one.__x = static_cast<unsigned char>(code);
  two.__x = static_cast<unsigned short>(code | (255 - code) << 8);
  four.__x = two.__x | static_cast<unsigned>(two.__x) << 16;
  put<float>(out, static_cast<float>(one)), put<double>(out, static_cast<double>(one));
  put<__half>(out, static_cast<__half>(one));
  put<__nv_bfloat16>(out, static_cast<__nv_bfloat16>(one));
  put<__half_raw>(out, __nv_cvt_fp8_to_halfraw(one.__x, as));
  put<__half2_raw>(out, __nv_cvt_fp8x2_to_halfraw2(two.__x, as));
  put<__half2>(out, static_cast<__half2>(two)), put<float2>(out, static_cast<float2>(two));
  put<float4>(out, static_cast<float4>(four)), put<bool>(out, static_cast<bool>(one));
  put<char>(out, static_cast<char>(one)), put<signed char>(out, static_cast<signed char>(one));
  put<unsigned char>(out, static_cast<unsigned char>(one));
  put<short>(out, static_cast<short>(one));
  put<unsigned short>(out, static_cast<unsigned short>(one)), put<int>(out, static_cast<int>(one));
  put<unsigned>(out, static_cast<unsigned>(one)), put<long long>(out, static_cast<long long>(one));
  put<unsigned long long>(out, static_cast<unsigned long long>(one));
}
#define E4M3 __nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3
#define E5M2 __nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2
ENTRY(const double* x, unsigned char* narrowed, unsigned char* widened) {
  const int n = COUNT;
  for (int i = START; i < n; i += STEP) {
    narrow<E4M3>(x[i], x[n - 1 - i], __NV_E4M3, narrowed + i * 128);
    narrow<E5M2>(x[i], x[n - 1 - i], __NV_E5M2, narrowed + i * 128 + 64);
  }
  for (int i = START; i < 256; i += STEP) {
    widen<E4M3>(i, __NV_E4M3, widened + i * 256);
    widen<E5M2>(i, __NV_E5M2, widened + i * 256 + 128);
  }
}
"""


def positive(digits, bias, most):
    """Return the numbers of the codes that are not negative, by the definition."""
    code = np.arange(most + 1)
    exponent, fraction = code >> digits, code & ((1 << digits) - 1)
    normal = np.ldexp((1 << digits) + fraction, exponent - bias - digits)
    return np.where(exponent == 0, np.ldexp(fraction, 1 - bias - digits), normal)


@np.errstate(all="ignore")
def numbers():
    """Return numbers on, between and beside those of both formats, of both signs."""
    rng = np.random.default_rng(0)
    every = [np.arange(1 << 16, dtype="u4").astype("u2").view("f2").astype("f8")]
    every += [(np.arange(1 << 16, dtype="u4") << 16).view("f4").astype("f8")]
    every += [rng.integers(0, 1 << 32, 1 << 14, dtype="u8").astype("u4").view("f4").astype("f8")]
    every += [rng.normal(0, 100, 1 << 14)]
    for digits, bias, most, _ in FORMATS.values():
        known = positive(digits, bias, most)
        middle = np.append((known[1:] + known[:-1]) / 2, 1.5 * known[-1] - known[-2] / 2)
        for one in (known, middle, known[1:2] / 2):
            for beside in (one, np.nextafter(one, np.inf), np.nextafter(one, 0)):
                every += [beside, -beside]
            single = one.astype("f4")
            every += [np.nextafter(single, np.float32(s)).astype("f8") for s in (np.inf, 0)]
    nans = [0x7FF8000000000000, 0xFFF4000000000001, 0x7FFC000000000000, 0xFFF0000000000001]
    return np.concatenate(
        [*every, np.array(nans, "u8").view("f8"), [np.inf, -np.inf, 1e300, 5e-324]]
    )


def emulated(folder, x):
    """Return what the emulator makes of both directions."""
    first, step = "blockIdx.x * blockDim.x + threadIdx.x", "gridDim.x * blockDim.x"
    defines = f"#define START {first}\n#define STEP {step}\n#define COUNT {len(x)}\n"
    text = f'{defines}#define ENTRY extern "C" __global__ void all\n{TEXT}'
    args = [arg("x", x.shape, "float64"), arg("narrowed", (len(x), 128), "uint8", role="inout")]
    args += [arg("widened", (256, 256), "uint8", role="inout")]
    kernel = SourceKernel("all", text, args, grid=64, block=64).kernel("cuda")
    path = compile_emulated(kernel, folder / "emulated.so", optimized=True)
    narrowed, widened = np.zeros((len(x), 128), "u1"), np.zeros((256, 256), "u1")
    EmulatedKernel(path, kernel).run([x, narrowed, widened], checked=False)
    return narrowed, widened


def by_the_toolkit(folder, x):
    """Return what the functions of the toolkit's header that run on the host make of them."""
    places = [root / "include" for root in toolkit_roots()]
    include = next((one for one in places if (one / "cuda_fp8.h").exists()), None)
    if include is None:
        pytest.skip("there is no CUDA toolkit")
    defines = f"#define START 0\n#define STEP 1\n#define COUNT {len(x)}\n"
    source = folder / "host.cpp"
    source.write_text(f'{defines}#define ENTRY extern "C" void all\n{TEXT}')
    command = ["c++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([*command, source, "-o", folder / "host.so"], check=True)
    narrowed, widened = np.zeros((len(x), 128), "u1"), np.zeros((256, 256), "u1")
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in (x, narrowed, widened)]
    ctypes.CDLL(str(folder / "host.so")).all(*pointers)
    return narrowed, widened


def test_every_conversion_has_the_bits_of_the_toolkit(tmp_path):
    x = numbers()
    narrowed, widened = by_the_toolkit(tmp_path, x)
    ours = emulated(tmp_path, x)
    different = np.argwhere(ours[0] != narrowed)
    assert not len(different), [(x[i], x[-1 - i], j) for i, j in different[:8]]
    assert not len(different := np.argwhere(ours[1] != widened)), different[:8]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_to_the_nearest_and_to_even(tmp_path, name):
    x = numbers()[::10]
    x = x[~np.isnan(x)]
    narrowed, widened = emulated(tmp_path, x)
    digits, bias, most, above = FORMATS[name]
    place = list(FORMATS).index(name)
    values = widened[:, 128 * place :][:, :4].copy().view("f4")[:, 0]
    known = positive(digits, bias, most)
    np.testing.assert_array_equal(values[: most + 1], known)
    np.testing.assert_array_equal(values[128 : 129 + most], -known)
    steps, size = np.append(known, 2 * known[-1] - known[-2]), np.abs(x)
    low = np.clip(np.searchsorted(steps, size, "right") - 1, 0, most)
    middle = (steps[low] + steps[low + 1]) / 2
    code = low + ((size > middle) | ((size == middle) & (low % 2 == 1)))
    signs = np.signbit(x) << 7
    np.testing.assert_array_equal(
        narrowed[:, 64 * place], np.where(code > most, above, code) | signs
    )
    saturated = narrowed[:, 64 * place + 12]
    np.testing.assert_array_equal(saturated, np.minimum(code, most) | signs)


def test_a_read_by_a_conversion_is_watched(tmp_path):
    text = """#include <cuda_fp8.h>
extern "C" __global__ void watched(float* y) {
  __shared__ __nv_fp8_e4m3 s[64];
  const int t = threadIdx.x;
  s[t] = __nv_fp8_e4m3(1.0f * t);
  y[t] = float(s[63 - t]);
}
"""
    kernel = SourceKernel("watched", text, [arg("y", (64,), role="out")], grid=1, block=64)
    kernel = kernel.kernel("cuda")
    path = compile_emulated(kernel, tmp_path / "watched.so")
    with pytest.raises(DeviceError, match=r"race on shared memory .* at watched.cu:[56] "):
        EmulatedKernel(path, kernel).run([np.zeros(64, "f4")])
