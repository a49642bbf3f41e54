"""The functions of C that vectorise compute what those of the C library do."""

import platform
import subprocess

import numpy as np
import pytest
from scipy import special

from autotune import te
from autotune.codegen.source import kernel_of_schedule
from autotune.codegen.vector_math import FUNCTIONS
from autotune.driver import build
from autotune.target import Target

EXACT = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "erf": special.erf,
    "sigmoid": special.expit,
}  # fmt: skip
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-30, -1e-30, 1e-42, -1e-42,
     88.72, 88.73, -87.5, -100.0, -103.9, -104.5, 1e-38, 0.625, 0.9277, 12.0, -20.0],
    np.float32,
)  # fmt: skip


def applied(name, values):
    """Return a function of C of all values, by a schedule that vectorises."""
    n = len(values)
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: getattr(te, name)(x[i]), name="y")
    s = te.create_schedule([y.op])
    _, inner = s[y].split(y.op.axis[0], 16)
    s[y].vectorize(inner)
    module = build(s, [x, y], target="c")
    out = np.empty(n, np.float32)
    module(values.astype(np.float32), out)
    return out, module


def test_each_function_has_a_case():
    assert FUNCTIONS.keys() == EXACT.keys()


# Units in the last place.
BOUNDS = {"exp": 1.6, "log": 1.1, "log1p": 2.1, "tanh": 5.1, "erf": 5.1, "sigmoid": 2.9}


@pytest.mark.parametrize("name", EXACT)
def test_results_of_all_magnitudes_are_within_their_bounds(name):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 60_000, np.uint32).view(np.float32)  # any numbers at all
    usual = rng.uniform(-10, 10, 60_000).astype(np.float32)
    values = np.concatenate([bits[np.isfinite(bits)], usual, 10 * usual])
    values = values[: len(values) // 16 * 16]
    values = abs(values) if name in ("log", "log1p") else values
    if name == "log1p":
        values = np.concatenate([values, rng.uniform(-1, 1, 60_000).astype(np.float32)])
    out, module = applied(name, values)
    with np.errstate(all="ignore"):
        exact = EXACT[name](values.astype(np.float64))
        fits = abs(exact) <= np.finfo(np.float32).max
        unit = np.spacing(np.abs(exact[fits]).astype(np.float32))
    assert (np.abs(out[fits] - exact[fits]) / unit).max() < BOUNDS[name]
    np.testing.assert_array_equal(out[~fits], np.sign(exact[~fits]) * np.inf)
    assert f"{name}_f32(" in module.kernel.source
    assert "expf(" not in module.kernel.source


@pytest.mark.parametrize("name", EXACT)
def test_compilers_make_vectors_of_the_functions(name, tmp_path):
    """Whatever a processor's own form of choices is: those of AVX2 were scalar once."""
    if platform.machine() != "x86_64":
        pytest.skip("reads the machine code of x86")
    x = te.placeholder((1024,), name="x")
    y = te.compute((1024,), lambda i: getattr(te, name)(x[i]), name="y")
    source = kernel_of_schedule(te.create_schedule([y.op]), [x, y], Target("c")).source
    (tmp_path / "f.c").write_text(source)
    flags = ["-O3", "-march=x86-64-v3", "-fno-math-errno", "-S", "-o", "f.s", "f.c"]
    subprocess.run(["cc", *flags], cwd=tmp_path, check=True)
    assert "ymm" in (tmp_path / "f.s").read_text()


@pytest.mark.parametrize("name", EXACT)
def test_nans_infinities_zeros_and_denormal_numbers_are_as_in_the_library(name):
    out, _ = applied(name, SPECIAL)
    with np.errstate(all="ignore"):
        exact = EXACT[name](SPECIAL.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(out, exact, rtol=3e-7, atol=2e-45)
    signs = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(out)[signs], np.signbit(exact)[signs])


def test_a_user_may_call_his_arrays_as_a_helper_is_called():
    x = te.placeholder((16,), name="exp_f32")
    y = te.compute((16,), lambda i: te.exp(x[i]), name="select_f32")
    out = np.empty(16, np.float32)
    build(te.create_schedule([y.op]), [x, y], target="c")(np.zeros(16, np.float32), out)
    assert (out == 1).all()


def test_roots_are_vectorised_as_they_need_not_set_errno():
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: te.sqrt(x[i]), name="y")
    module = build(te.create_schedule([y.op]), [x, y], target="c")
    assert "-fno-math-errno" in module.kernel.flags
