"""Attention on a CPU: partial tiles, parts of keys, masks, and layouts."""

import numpy as np
import pytest
from autotune.templates.attention import attention_cpu
from autotune.templates.attention.attention_cpu import FloatAttention

from autotune import Target, build
from autotune.errors import TemplateError
from tests.templates.on_cpu import run_over_nan

TILES = [
    {"rows": 6, "vectors": 4, "lanes": 16, "key_block": 64},
    {"rows": 5, "vectors": 2, "lanes": 8, "key_block": 32},
    {"rows": 14, "vectors": 1, "lanes": 4, "key_block": 256},
    {"rows": 1, "vectors": 3, "lanes": 8, "key_block": 32},
]
# Queries, keys, size, heads and those of keys: fewer than a tile, whole tiles, remainders.
EXTENTS = [
    (1, 1, 1, 1, 1), (7, 3, 20, 2, 1), (33, 100, 40, 4, 2), (64, 64, 64, 2, 2), (70, 9, 72, 3, 1)
]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("tile", range(len(TILES)))
def test_partial_tiles_and_parts_of_keys_give_the_right_sums(tile):
    """Each tile has all extents, and each extent is causal with some tiles."""
    for i, (queries, keys, size, heads, kv_heads) in enumerate(EXTENTS):
        causal = (tile + i) % 2 == 1
        shape = FloatAttention(2, heads, kv_heads, queries, keys, size, causal, layout="BSHD")
        run_over_nan(shape, attention_cpu, TILES[tile])


@pytest.mark.many_cases
@pytest.mark.parametrize("layout", ["BHSD", "BSHD", "packed"])
def test_heads_are_read_where_each_layout_has_them(layout):
    shape = FloatAttention(2, 4, 2, 37, 37, 24, True, 0.3, layout=layout)
    for target in ("llvm", "llvm -mcpu=x86-64-v3"):
        with Target(target) as current:
            choice = attention_cpu.default_choice(shape, current)
            assert attention_cpu.violation(shape, choice, current) is None
        run_over_nan(shape, attention_cpu, choice, target, optimized=True)


@pytest.mark.many_cases
@pytest.mark.parametrize(("bias", "tile"), [((2, 4, 37), 0), ((1, 4, 1), 1), ((2, 1, 37), 3)])
def test_a_bias_is_added_to_the_scores_of_each_part_of_keys(bias, tile):
    shape = FloatAttention(2, 4, 2, 37, 70, 24, True, 0.3, layout="BSHD", bias=bias)
    run_over_nan(shape, attention_cpu, TILES[tile])


def _attended(shape, *arrays):
    with Target("llvm") as target:
        kernel = attention_cpu.kernel(shape, attention_cpu.default_choice(shape, target))
        module = build(kernel, name="f")
    out = np.full(kernel.args[-1].shape, np.nan, "float32")
    module(*arrays, out)
    return out


def test_scores_of_minus_infinity_weigh_nothing_and_a_nan_stays_one():
    shape = FloatAttention(1, 1, 1, 3, 40, 4, scale=1.0)
    rng = np.random.default_rng(0)
    q = np.abs(rng.standard_normal((1, 1, 3, 4))).astype("float32")
    k, v = (rng.standard_normal((1, 1, 40, 4)).astype("float32") for _ in range(2))
    k[0, 0, 5] = -np.inf
    some = _attended(shape, q, k, v)
    others = np.delete(k, 5, 2), np.delete(v, 5, 2)
    want = FloatAttention(1, 1, 1, 3, 39, 4, scale=1.0).reference()(q, *others)
    np.testing.assert_allclose(some, want, rtol=1e-5, atol=1e-6)
    assert not _attended(shape, q, np.full_like(k, -np.inf), v).any()
    q[0, 0, 1, 2] = np.nan
    assert np.isnan(_attended(shape, q, k, v)).any(3).tolist() == [[[False, True, False]]]


def test_queries_before_all_keys_see_none():
    shape = FloatAttention(1, 2, 2, 30, 5, 8, causal=True)
    arrays = [np.ones(each.shape, "float32") for each in shape.arguments()[:-1]]
    seen = _attended(shape, *arrays).any((0, 1, 3))
    assert seen.tolist() == [False] * 25 + [True] * 5


def test_large_exponents_are_those_of_the_largest_score():
    shape = FloatAttention(1, 1, 1, 2, 300, 8, scale=1.0)
    rng = np.random.default_rng(0)
    arrays = [100 * rng.standard_normal(a.shape).astype("float32") for a in shape.arguments()[:-1]]
    want = shape.reference()(*(x.astype("float64") for x in arrays))
    np.testing.assert_allclose(_attended(shape, *arrays), want, rtol=1e-3)


def test_other_types_and_larger_heads_are_refused():
    with pytest.raises(TemplateError, match="dtype must be float32 on a CPU, got 'float16'"):
        FloatAttention(1, 1, 1, 1, 1, 8, dtype="float16")
    with pytest.raises(TemplateError, match="size must be at most 1024, got 1025"):
        FloatAttention(1, 1, 1, 1, 1, 1025)
