"""Hand-written kernels compile on the emulator as they are, and compute what numpy does."""

import numpy as np
import pytest
from scipy import special

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.kernel import SourceKernel, arg
from tests.emulator.hand_written import KERNELS

X = np.linspace(0.05, 0.95, 64)
# Functions of a double, of which those of a float have an `f` more, and what scipy has for them.
FUNCTIONS = {
    "rsqrt": X**-0.5,
    "rcbrt": np.cbrt(X) ** -1,
    "sinpi": np.sin(np.pi * X),
    "cospi": np.cos(np.pi * X),
    "erfcinv": special.erfcinv(X),
    "erfinv": special.erfinv(X),
    "erfcx": special.erfcx(X),
    "normcdf": special.ndtr(X),
    "normcdfinv": special.ndtri(X),
    "exp10": 10**X,
    "cyl_bessel_i0": special.i0(X),
    "cyl_bessel_i1": special.i1(X),
    "j0": special.j0(X),
    "lgamma": special.gammaln(X),
}
EXPRESSIONS = {
    "erfcinv(v * 1e-200)": special.erfcinv(X * 1e-200),
    "erfinv(v * 1e-9)": special.erfinv(X * 1e-9),
    "erfcx(v * 100)": special.erfcx(X * 100),
    "sinpi(2.0)": 0,
    "cospi(-0.5)": 0,
    "sinpi(v + 8)": np.sin(np.pi * X),
    "rhypot(v, 2.0)": np.hypot(X, 2) ** -1,
    "norm3d(v, 1, 2)": (X**2 + 5) ** 0.5,
    "rnorm4d(v, 1, 2, 2)": (X**2 + 9) ** -0.5,
    "(sincospi(v, &s, &c), s + 2 * c)": np.sin(np.pi * X) + 2 * np.cos(np.pi * X),
    "(sincospif(v, &sf, &cf), sf > 0)": 1,
    "__hiloint2double(__double2hiint(v), __double2loint(v))": X,
    "__dadd_ru(1.0, 1e-30) > 1": 1,
    "__dadd_rd(1.0, 1e-30)": 1,
    "__fadd_rz(-1.0f, 1e-30f) > -1": 1,
    "__fmul_ru(1.0f / 3, 3.0f) - __fmul_rd(1.0f / 3, 3.0f) > 0": 1,
    "__fdiv_rd(1.0f, 3.0f) < __fdiv_ru(1.0f, 3.0f)": 1,
    "__double2int_rn(2.5)": 2,
    "__double2int_ru(v)": np.ceil(X),
    "__float2int_rz(3e9f)": 2.0**31 - 1,
    "__float2uint_rz(-1.f)": 0,
    "__double2ll_rd(-v)": np.floor(-X),
    "__int2float_rd(16777217)": 2.0**24,
    "__mul64hi(1ll << 62, 8)": 2,
    "__umul64hi(1ull << 63, 6)": 3,
    "__brevll(1) >> 63": 1,
    "__rhadd(-3, 0) + __hadd(5, 2)": 2,
    "__sad(-3, 4, 1u)": 8,
    "__fns(0x50, 0, 2)": 6,
    "__mul24(0x1000003, -2)": -6,
    "__funnelshift_rc(1u, 2u, 40)": 2,
    "__isShared(out) + 2 * __isGlobal(out)": 2,
    "(__match_all_sync(~0u, 3, &n) == ~0u) + 2 * (__match_all_sync(~0u, i, &n) != 0)": 1,
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    kernels = {name: case.kernel(name) for name, case in KERNELS.items()}
    path = tmp_path_factory.mktemp("hand_written") / "all.so"
    compile_emulated(list(kernels.values()), path)
    return {name: EmulatedKernel(path, kernel) for name, kernel in kernels.items()}


@pytest.mark.many_cases
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_a_hand_written_kernel_computes_what_numpy_does(loaded, name, order):
    arrays = [array.copy() for array in KERNELS[name].arrays]
    loaded[name].run(arrays, order)
    for i, expected in KERNELS[name].expected.items():
        if (wanted := expected()) is not None:
            found = arrays[i].astype(np.float64).reshape(np.shape(wanted))
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_functions_of_cuda_alone_are_as_accurate_as_a_device(tmp_path):
    cases = {f"{name}(v)": wanted for name, wanted in FUNCTIONS.items()} | EXPRESSIONS
    cases |= {f"{name}f((float)v)": wanted for name, wanted in FUNCTIONS.items()}
    stores = "\n".join(f"  out[{64 * k} + i] = {text};" for k, text in enumerate(cases))
    text = f"""extern "C" __global__ void f(const double* in, double* out) {{
  const int i = threadIdx.x; int n; const double v = in[i]; double s, c; float sf, cf;
{stores}
}}"""
    args = [arg("in", (64,), "float64"), arg("out", (len(cases), 64), "float64", "out")]
    kernel = SourceKernel("f", text, args, grid=1, block=64).kernel("cuda")
    found = np.zeros((len(cases), 64))
    EmulatedKernel(compile_emulated(kernel, tmp_path / "f.so"), kernel).run([X, found])
    for (text, wanted), row in zip(cases.items(), found, strict=True):
        error = 3e-6 if "f((float)" in text else 1e-13
        np.testing.assert_allclose(row, wanted, rtol=error, atol=error / 10, err_msg=text)
