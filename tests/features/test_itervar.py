"""Loop features are the numbers that one counts by hand, whatever things are called."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import te
from autotune.errors import LoweringError
from autotune.features import (
    ana_lower,
    flatten_itervar_feature,
    get_flatten_name,
    get_itervar_feature,
    get_itervar_feature_flatten,
)
from autotune.features.loops import LOOP_KINDS
from tests.features.schedules import cuda_conv, gemm, tiled_gemm


def blocks(schedule, args, take_log=False):
    """Return the features by loop and block, and the kind of each loop."""
    found, kinds = {}, {}
    for loop in get_itervar_feature(schedule, args, take_log):
        own = {block[0]: block[1:] for block in loop[1:]}
        name = str(loop[0][1])
        kinds[name] = LOOP_KINDS[own["_attr_"][4:].index(1)]
        own["_attr_"] = own["_attr_"][:4]
        found[name] = own
    return found, kinds


def plain(stride, count, reuse):
    return [stride, -1, count, reuse, 0, 0]


def test_plain_gemm_has_the_published_numbers():
    found, kinds = blocks(*gemm())
    assert found == {
        "y": {
            "_attr_": [128, 1, 128, 2097152], "_arith_": [0, 0, 0],
            "A_0": plain(128, 16384, 128), "B_0": plain(0, 16384, 128),
            "C_0": plain(128, 16384, 128), "C_1": plain(128, 16384, 128),
        },
        "x": {
            "_attr_": [128, 2, 16384, 16384], "_arith_": [0, 0, 0],
            "A_0": plain(0, 128, 128), "B_0": plain(1, 16384, 1),
            "C_0": plain(1, 128, 128), "C_1": plain(1, 128, 128),
        },
        "k": {
            "_attr_": [128, 3, 2097152, 128], "_arith_": [1, 1, 0],
            "A_0": plain(1, 128, 1), "B_0": plain(128, 128, 1),
            "C_0": plain(0, 1, 128), "C_1": plain(0, 1, 128),
        },
    }  # fmt: skip
    assert set(kinds.values()) == {"serial"}


def test_tiled_gemm():
    found, kinds = blocks(*tiled_gemm())
    c = {"C_0", "C_1"}
    expected = {
        "y.outer": ([4, 1, 4, 2097152], (4096, 16384, 128), (0, 16384, 128), (4096, 16384, 128)),
        "x.outer": ([8, 2, 32, 524288], (0, 4096, 128), (16, 16384, 32), (16, 4096, 128)),
        "k": ([128, 3, 4096, 65536], (1, 4096, 16), (128, 2048, 32), (0, 512, 128)),
        "y.inner": ([32, 4, 131072, 512], (128, 32, 16), (0, 16, 32), (128, 512, 1)),
        "x.inner": ([16, 5, 2097152, 16], (0, 1, 16), (1, 16, 1), (1, 16, 1)),
    }
    for name, (attributes, of_a, of_b, of_c) in expected.items():
        touches = {"A_0": of_a, "B_0": of_b} | dict.fromkeys(c, of_c)
        assert found[name]["_attr_"] == attributes
        for access, numbers in touches.items():
            assert found[name][access] == plain(*numbers), (name, access)
    assert found["x.inner"]["_arith_"] == [1, 1, 0]
    assert list(kinds.values()) == ["serial"] * 4 + ["vectorized"]


def test_elementwise_counts_its_arithmetic_and_what_a_thread_of_it_does():
    a = te.placeholder((6, 10), name="A")
    b = te.compute((6, 10), lambda i, j: (a[i, j] - 1.0) * 2.0 / (a[i, j] + 3.0), name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    found, kinds = blocks(s, [a, b])
    assert kinds == {"i": "parallel", "j": "serial"}
    assert found["j"]["_arith_"] == [2, 1, 1]
    touched = {"A_0", "A_1", "B_0"}
    assert {name: found["j"][name] for name in touched} == dict.fromkeys(touched, plain(1, 10, 1))
    every = [10, -1, 60, 1, 6, 1]
    assert {name: found["i"][name] for name in touched} == dict.fromkeys(touched, every)


def test_conv_on_blocks_and_threads():
    found, kinds = blocks(*cuda_conv())
    assert list(kinds.values()) == ["blockIdx.x", "threadIdx.y", "threadIdx.x"] + ["serial"] * 3
    expected = {
        "blockIdx.x": ([0, -1, 2304, 8, 1, 8], [36, -1, 288, 64, 8, 1], [64, -1, 512, 36, 8, 1]),
        "threadIdx.y": ([10, -1, 2304, 1, 64, 1], [0, -1, 36, 64, 1, 64], [8, -1, 64, 36, 64, 1]),
        "threadIdx.x": ([1, -1, 288, 1, 8, 1], [0, -1, 36, 8, 1, 8], [1, -1, 8, 36, 8, 1]),
        "c": (plain(100, 36, 1), plain(9, 36, 1), plain(0, 1, 36)),
        "i": (plain(10, 9, 1), plain(3, 9, 1), plain(0, 1, 9)),
        "j": (plain(1, 3, 1), plain(1, 3, 1), plain(0, 1, 3)),
    }
    for name, touches in expected.items():
        names = ("D_0", "W_0", "O_0")
        assert {each: found[name][each] for each in names} == dict(
            zip(names, touches, strict=True)
        )
    assert found["threadIdx.x"]["_attr_"] == [8, 3, 512, 288]


def test_a_copy_stands_in_the_loop_it_is_attached_to_and_shares_its_threads():
    s, args = cuda_conv(shared=True)
    nest = ana_lower(s, args)
    listed = [(loop.stage, loop.extent, loop.depth) for loop in nest.loops]
    assert listed == [
        ("O", 8, 1), ("O", 8, 2), ("O", 8, 3), ("O", 4, 4),
        ("W.shared", 1, 5), ("W.shared", 1, 6), ("W.shared", 3, 7), ("W.shared", 1, 8),
        ("O", 3, 5), ("O", 3, 6),
    ]  # fmt: skip
    copied = {a.name: dict(zip(a.loops, a.strides, strict=True)) for a in nest.accesses}
    assert copied["W.shared_0"] == {0: 0, 1: 0, 2: 1, 3: 0, 4: 0, 5: 0, 6: 3, 7: 0}
    assert copied["W_0"] == {0: 36, 1: 0, 2: 1, 3: 9, 4: 0, 5: 0, 6: 3, 7: 0}
    assert copied["W.shared_1"] == {0: 0, 1: 0, 2: 0, 3: 0, 8: 3, 9: 1}
    assert "for c in 0..4  # serial" in str(nest)
    assert str(nest).endswith("O_0 O_1 D_0 W.shared_1")


def test_loops_of_one_iteration_stay():
    s, args = tiled_gemm(y_factor=128, x_factor=1)
    found, _ = blocks(s, args)
    assert [found[n]["_attr_"][0] for n in found] == [1, 128, 128, 128, 1]
    assert found["y.outer"]["A_0"][0] == 0


def test_inlined_stages_are_no_loops():
    a = te.placeholder((4, 5), name="A")
    b = te.compute((4, 5), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 5), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    found, _ = blocks(s, [a, c])
    assert found["j"] == {
        "_attr_": [5, 2, 20, 5], "_arith_": [1, 1, 0],
        "A_0": plain(1, 5, 1), "C_0": plain(1, 5, 1),
    }  # fmt: skip


def test_the_stride_of_a_fused_loop_is_that_of_its_first_step():
    a = te.placeholder((4, 6, 5), name="A")
    b = te.compute((4, 30), lambda i, j: a[i, j % 6, j // 6], name="B")
    c = te.compute((120,), lambda f: b[f // 30, 0], name="C")
    found, _ = blocks(te.create_schedule([b.op, c.op]), [a, b, c])
    assert (found["i"]["A_0"][0], found["j"]["A_0"][0]) == (30, 5)
    # Thirty steps of the loop over C share one element of B: it moves, so the stride is not 0.
    assert found["f"]["B_1"] == found["f"]["C_0"] == plain(1, 120, 1)


def test_an_indirect_read_is_counted_with_the_read_of_its_index():
    a, where = te.placeholder((9,), name="A"), te.placeholder((7,), "int32", name="I")
    b = te.compute((7,), lambda i: a[where[i]], name="B")
    found, _ = blocks(te.create_schedule(b.op), [a, where, b])
    assert {name for name in found["i"] if name[0] != "_"} == {"A_0", "B_0", "I_0"}
    assert found["i"]["I_0"] == plain(1, 7, 1)


def test_logarithms_keep_signs_and_leave_depths_and_codes():
    found, _ = blocks(*gemm(), take_log=True)
    log = np.log2
    assert found["x"]["_attr_"] == pytest.approx([log(129), 2, log(16385), log(16385)])
    assert found["k"]["A_0"] == pytest.approx([1, -1, log(129), 1, 0, 0])
    assert found["k"]["_arith_"] == [1, 1, 0]


def test_flat_rows_have_a_name_for_each_number():
    s, args = tiled_gemm()
    features = get_itervar_feature(s, args)
    names = get_flatten_name(features)
    flat = flatten_itervar_feature(features)
    assert len(names) == len(set(names)) == len(flat)
    by_name = {name.split(".", 1)[1]: x for name, x in zip(names, flat, strict=True)}
    assert by_name["y.inner._attr_.length"] == 32
    assert by_name["x.inner._attr_.ann_7"] == 1
    assert by_name["k.B_0.reuse"] == 32
    logs = get_itervar_feature_flatten(s, args)
    assert logs.dtype == np.float32
    assert len(logs) == len(flat)
    np.testing.assert_array_equal(get_itervar_feature_flatten(s, args, take_log=False), flat)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)), st.sampled_from([None, "cuda"]), st.integers(1, 20))
def test_the_order_of_loops_changes_no_length_and_every_access_runs_in_all_loops(
    order, kind, factor
):
    s, args = gemm(32)
    out = args[2]
    y, x = out.op.axis
    axes = [*s[out].split(y, factor), *s[out].split(x, 8), out.op.reduce_axis[0]]
    s[out].reorder(*[axes[i] for i in order])
    if kind == "cuda":
        data = [axes[i] for i in order if i < 4]
        for axis, tag in zip(data, ("blockIdx.x", "vthread", "threadIdx.y"), strict=False):
            s[out].bind(axis, te.thread_axis(tag))
    features = get_itervar_feature(s, args)
    assert len(flatten_itervar_feature(features)) == 5 * (15 + 3 + 4 * 6)
    total = -(-32 // factor) * min(factor, 32) * 32 * 32
    assert features[-1][1][3] == features[0][1][4] == total
    assert all(touch[3] * touch[4] == total for touch in features[0][3:])


@settings(max_examples=10, deadline=None)
@given(
    st.tuples(st.integers(1, 128), st.integers(1, 128)),
    st.lists(st.text("abcxyz", min_size=1, max_size=4), min_size=6, max_size=6, unique=True),
)
def test_names_change_nothing(factors, words):
    names, axes = tuple(sorted(words[:3])), tuple(words[3:])
    renamed = tiled_gemm(*factors, names=names, axes=axes)
    np.testing.assert_array_equal(
        get_itervar_feature_flatten(*renamed), get_itervar_feature_flatten(*tiled_gemm(*factors))
    )


def test_features_leave_the_schedule_as_it_was():
    s, args = tiled_gemm()
    steps = s.steps
    first = get_itervar_feature_flatten(s, args)
    np.testing.assert_array_equal(first, get_itervar_feature_flatten(s, args))
    assert s.steps == steps


def test_a_missing_argument_is_named():
    s, (a, _, c) = gemm(8)
    with pytest.raises(LoweringError, match="B is read, but it is neither an argument"):
        get_itervar_feature(s, [a, c])
    n = te.var("n")
    d = te.placeholder((n,), name="D")
    e = te.compute((8,), lambda i: d[i] + 1.0, name="E")
    with pytest.raises(LoweringError, match=r"D: its shape .* must be constant"):
        get_itervar_feature(te.create_schedule(e.op), [d, e])


def test_loops_are_asked_for_with_autotvms_arguments():
    s, args = cuda_conv(shared=True)
    assert str(ana_lower(s, args, None, True)) == str(ana_lower(s, args, simple_mode=True))
