"""The functions of C that vectorise compute what those of the C library do."""

import numpy as np
import pytest
from scipy import special

from autotune import te
from autotune.codegen.vector_math import FUNCTIONS
from autotune.driver import build

EXACT = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": special.erf, "sigmoid": special.expit,
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


@pytest.mark.parametrize("name", EXACT)
def test_results_are_within_two_units_in_the_last_place(name):
    rng = np.random.default_rng(0)
    wide = {"exp": 87, "sigmoid": 80, "log": 1e4}.get(name, 10)
    values = rng.uniform(-wide, wide, 40_000) * np.repeat([1, 0.1, 1e-3, 1e-6], 10_000)
    values = (abs(values) if name == "log" else values).astype(np.float32)
    out, module = applied(name, values)
    exact = EXACT[name](values.astype(np.float64))
    apart = np.abs(out - exact) / np.spacing(np.abs(exact.astype(np.float32)))
    assert apart.max() < 2 if name != "sigmoid" else apart.max() < 4
    assert f"{name}_f32(" in module.kernel.source
    assert "expf(" not in module.kernel.source


@pytest.mark.parametrize("name", EXACT)
def test_nans_infinities_zeros_and_denormal_numbers_are_as_in_the_library(name):
    out, _ = applied(name, SPECIAL)
    with np.errstate(all="ignore"):
        exact = EXACT[name](SPECIAL.astype(np.float64)).astype(np.float32)
    # Of the largest arguments the library's own sigmoid, 1 / (1 + exp(-x)), is 0 too.
    atol = 1e-38 if name == "sigmoid" else 2e-45
    np.testing.assert_allclose(out, exact, rtol=3e-7, atol=atol)
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
