"""Random calls of operators by their names, in C and in emulated CUDA, compute what numpy does.

pytest tests/fuzz/test_random_calls.py --calls 400
"""

import numpy as np
import pytest

import autotune
from autotune.graph import OPERATORS
from autotune.network import implementations
from tests.fuzz.calls import DRAWN, NEAR, draw_call

KINDS = {"c": "cpu", "cuda -emulate": "cuda"}
# The pass `integer_layers` makes these, with numbers that fit each other: tests of quantised
# models and templates/test_quantised.py draw them.
MADE_BY_A_PASS = {name for name in OPERATORS if name.startswith("qnn.")}


def registered(kind):
    """Return the operators that a kind of target has templates for."""
    implementations.templates_for("nn.dense", kind)  # loads the library
    return sorted(name for name, of in implementations._TABLE if of == kind)


def error_of(call, store):
    """Make a call; return how far its result is from numpy's, as a share of it."""
    *inputs, result = call.arrays()
    function = autotune.jit(
        call.name, key=lambda *arrays: call.attributes, store=store, target=call.target
    )
    function(*inputs, result)
    wide = [x if x.dtype.kind == "i" else x.astype("float64") for x in inputs]
    want = np.asarray(call.op.reference(*wide)).astype("float64")
    got = result.astype("float64")
    if not np.isfinite(got).all():
        return np.inf
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-3)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_every_operator_of_the_registry_can_be_drawn(kind):
    assert {*registered(kind)} - {*DRAWN} <= MADE_BY_A_PASS


@pytest.mark.parametrize("target", KINDS)
def test_random_calls_compute_what_numpy_does(target, call_seeds, tmp_path):
    # On a CPU those without a template run by rule.
    names = [name for name in registered("cuda") if name not in MADE_BY_A_PASS]
    failures = []
    for seed in call_seeds:
        call = draw_call(seed, target, names)
        error = error_of(call, tmp_path / "store.log")
        if error > NEAR[call.types[0].dtype]:
            failures.append(f"{call}: error {error:.1e}")
    assert not failures, "\n".join(failures)
