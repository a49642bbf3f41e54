"""Attention: causal or not, grouped queries, one query, keys divided among blocks."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.attention.attention_mma import Attention
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated, drawn

HOPPER = Target("cuda -arch=sm_90")


def split(wanted):
    def fits(kernel):
        return (len(kernel.calls) > 1) == wanted and kernel.calls[0].launch.threads <= 64

    return fits


# batch, heads, queries, keys, size, kv_heads, causal, scale, dtype, layout
CASES = {
    "causal": (1, 1, 40, 40, 64, 0, True, 0.0, "bfloat16"),
    "grouped, of a suffix": (2, 4, 9, 33, 16, 2, True, 0.3),
    "of heads that are no whole tiles": (1, 2, 19, 35, 40, 1, True),
    "of small heads": (2, 2, 5, 20, 8, 2),
    "more queries than keys": (1, 2, 20, 9, 64, 2, True),
    "rows before heads": (2, 4, 21, 35, 16, 2, True, 0.0, "float16", "BSHD"),
    "packed": (2, 2, 37, 37, 24, 2, False, 0.0, "float16", "packed"),
    "packed, with shared keys": (2, 4, 18, 18, 16, 2, True, 0.0, "bfloat16", "packed"),
    "a bias of each head, as windows of Swin": (
        2, 2, 35, 35, 16, 0, False, 0.0, "float16", "packed", (1, 2, 35)),
    "a bias of each batch, grouped": (
        2, 4, 9, 34, 16, 2, False, 1.0, "bfloat16", "BHSD", (2, 1, 9)),
    "heads of four and a half vectors, packed": (
        2, 4, 21, 21, 36, 4, False, 0.0, "float16", "packed"),
    "heads of an odd number of pairs, biased": (
        1, 2, 18, 21, 22, 2, True, 0.0, "bfloat16", "BSHD", (1, 2, 18)),
    "a mask of keys in float32, causal": (
        2, 2, 18, 21, 24, 1, True, 0.3, "float16", "BSHD", (2, 1, 1), "float32"),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_kernels_match_their_reference_in_the_emulator(name):
    check_emulated("attention.cuda", CASES[name], rtol=3e-2, fits=split(False))


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "args",
    [
        (1, 8, 1, 150, 128, 2, True),
        (1, 2, 20, 70, 32, 1, True),
        (1, 2, 3, 70, 72),
        (1, 2, 3, 70, 36),
        (2, 2, 5, 70, 16, 2, False, 0.0, "float16", "BSHD"),
        (2, 2, 70, 70, 16, 1, True, 0.0, "float16", "packed"),
        (2, 2, 3, 71, 16, 1, False, 0.0, "float16", "BHSD", (1, 2, 3)),
    ],
)
def test_keys_divided_among_blocks_are_joined(args):
    check_emulated("attention.cuda", args, rtol=3e-2, fits=split(True))


@pytest.mark.many_cases
@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("lowest", [-1e9, -1e30, np.finfo(np.float32).min, -np.inf])
def test_rows_of_which_a_mask_hides_all_keys_are_numbers(lowest, splits):
    """The mean of values, as the softmax of equal scores is, or zeros where nothing is left."""

    def hidden(rng, a):
        return np.where(np.arange(3)[:, None] == 1, np.zeros(a.shape), lowest).astype(a.dtype)

    keys = 70 if splits else 24
    args = (1, 1, 3, keys, 16, 1, False, 0.0, "float16", "BHSD", (1, 1, 3), "float32")
    task = create("attention.cuda", args, "cuda -emulate")
    (source,) = drawn(task, 1, split(splits), sample=70)
    arrays = arrays_of(source, {"bias": hidden})
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*arrays[:-1])
    mean = 0.0 if lowest == -np.inf else arrays[2][0, 0].astype(np.float32).mean(axis=0)
    np.testing.assert_allclose(arrays[-1][0, 0, ::2].astype(np.float32) - mean, 0, atol=1e-2)
    np.testing.assert_allclose(arrays[-1][0, 0, 1], wanted[0, 0, 1], rtol=3e-2, atol=1e-2)


def test_the_reference_is_what_attention_is_defined_as():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=s) for s in [(1, 4, 3, 16), (1, 2, 5, 16), (1, 2, 5, 16)])
    got = Attention(1, 4, 2, 3, 5, 16, causal=True).reference()(q, k, v)
    for head in range(4):
        for i in range(3):
            seen = i + 3  # keys of the last query are all five
            scores = np.exp(k[0, head // 2, :seen] @ q[0, head, i] / 4)
            np.testing.assert_allclose(
                got[0, head, i], scores / scores.sum() @ v[0, head // 2, :seen]
            )


def test_operations_of_keys_that_are_not_seen_are_not_counted():
    assert Attention(2, 3, 3, 4, 4, 16).flop == 4 * 6 * 16 * 16
    assert Attention(2, 3, 3, 4, 4, 16, causal=True).flop == 4 * 6 * 10 * 16
    assert Attention(1, 1, 1, 1, 9, 16, causal=True).flop == 4 * 9 * 16


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5000),
    st.integers(1, 5000), st.sampled_from([16, 36, 64, 128, 256]), st.booleans(),
)  # fmt: skip
def test_every_shape_has_configurations_and_its_default_is_one(b, kv, group, queries, keys, d, c):
    task = create("attention.cuda", (b, kv * group, queries, keys, d, kv, c), HOPPER)
    assert len(task.config_space) >= 1
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.parametrize("bias", ["", "float32"])
@pytest.mark.parametrize("size", [246, 256])
def test_the_widest_heads_have_configurations_with_a_bias(size, bias):
    args = (2, 4, 300, 300, size, 4, False, 0.0, "float16", "BHSD", (1, 4, 300), bias)
    for target in (HOPPER, Target("cuda -arch=sm_80")):
        assert create("attention.cuda", args, target).default() is not None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 4, 8, 8, 64, 3), "kv_heads must divide heads"),
        ((1, 4, 8, 8, 45), "an even number up to 256"),
        ((1, 4, 8, 8, 64, 0, False, 0.0, "float32"), "float16 or bfloat16"),
        ((1, 4, 8, 8, 64, 0, False, float("inf")), "scale must be a number"),
        ((1, 4, 0, 8, 64), "at least 1"),
    ],
)
def test_attention_that_cannot_be_is_an_error_that_says_so(args, message):
    with pytest.raises(TemplateError, match=message):
        create("attention.cuda", args, "cuda")
