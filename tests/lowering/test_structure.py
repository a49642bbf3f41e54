"""What the loops look like: the published convolution schedule, vectors, unrolling, barriers."""

import re
import subprocess
import sys

import pytest

from autotune import te, topi
from autotune.lowering import PASSES, lower, lower_schedule


def tiles(stage, axis, *factors):
    """Split an axis by its inner factors; return all parts from the outside in."""
    inner = []
    for factor in reversed(factors):
        axis, last = stage.split(axis, factor=factor)
        inner.append(last)
    return [axis, *reversed(inner)]


def published():
    """The convolution of AutoTVM's auto-scheduler tutorial, with the best schedule it prints."""
    data = te.placeholder((1, 512, 7, 7), name="data")
    kernel = te.placeholder((512, 512, 3, 3), name="kernel")
    bias = te.placeholder((1, 512, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, 1, 1, 1, "float32")
    added = conv + bias
    out = topi.nn.relu(added)
    padded = conv.op.input_tensors[0]
    s = te.create_schedule(out.op)
    s[added].compute_inline()
    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    spatial = [
        tiles(s[conv], axis, *factors)
        for axis, factors in (
            (n, [1] * 4),
            (f, [2, 2, 2, 1]),
            (y, [1, 7, 1, 1]),
            (x, [1, 7, 1, 1]),
        )
    ]
    c, i, j = tiles(s[conv], rc, 4, 32), tiles(s[conv], ry, 1, 1), tiles(s[conv], rx, 1, 1)
    b, v, t, inner, last = zip(*spatial, strict=True)
    s[conv].reorder(
        *b, *v, *t, c[0], i[0], j[0], c[1], i[1], j[1], *inner, c[2], i[2], j[2], *last
    )
    levels = [
        tiles(s[out], axis, *factors)
        for axis, factors in zip(
            s[out].op.axis, ([1, 1, 1], [2, 2, 2], [1, 7, 1], [1, 7, 1]), strict=True
        )
    ]
    b, v, t, inner = zip(*levels, strict=True)
    s[out].reorder(*b, *v, *t, *inner)
    s[conv].compute_at(s[out], t[-1])
    copies = [s.cache_read(tensor, "shared", [conv]) for tensor in (kernel, padded)]
    s[padded].compute_inline()
    for loops, tag in ((b, "blockIdx.x"), (v, "vthread"), (t, "threadIdx.x")):
        s[out].bind(s[out].fuse(*loops), te.thread_axis(tag))
    for copy in copies:
        s[copy].compute_at(s[conv], j[0])
        rest, lane = s[copy].split(s[copy].fuse(*s[copy].op.axis), factor=1)
        s[copy].vectorize(lane)
        _, thread = s[copy].split(rest, factor=98)
        s[copy].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [data, kernel, bias, out]


def test_the_published_schedule_gives_the_published_kernel():
    lowered = lower_schedule(*published())
    (kernel,) = lowered.kernels
    text = str(lowered)
    assert (kernel.grid, kernel.block) == ((64, 1, 1), (98, 1, 1))
    assert [b.shape for b in kernel.shared] == [(6272,), (1024,)]
    assert [b.shape for b in kernel.local] == [(4,)]
    assert text.count("barrier") == 2
    # The two virtual threads are interleaved in the innermost loop and at both ends.
    assert len([line for line in text.splitlines() if "* kernel.shared[" in line]) == 2
    assert text.count("+ 2] = 0.0f") == 1


def test_the_published_schedule_divides_no_more_than_the_published_kernel():
    lines = str(lower_schedule(*published())).splitlines()
    stores = [line for line in lines if " = " in line and "for " not in line]
    padded = next(line for line in stores if "if_then_else" in line)
    weights = next(line for line in stores if "kernel.shared[" in line and " = kernel[" in line)
    # Row and column of the padding; nothing in the index of what is loaded or stored.
    assert set(re.findall(r"[/%] \d+", padded)) == {"/ 7", "% 7"}
    assert "/" not in padded.partition("data[")[2]
    assert weights.count("floordiv") == weights.count("floormod") == 1


def copy_kernel(width, extent=256, threads=8, dtype="float32"):
    A = te.placeholder((4, extent), dtype, name="A")
    B = te.compute((4, extent), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    rest, lane = s[B].split(j, factor=width)
    _, thread = s[B].split(rest, factor=threads)
    s[B].bind(i, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].vectorize(lane)
    return str(lower(s, [A, B]))


@pytest.mark.parametrize(
    ("width", "dtype", "stores"),
    [(4, "float32", 1), (2, "float32", 1), (8, "float32", 2), (8, "float16", 1), (16, "int8", 1)],
)
def test_lanes_side_by_side_are_one_wide_store(width, dtype, stores):
    text = copy_kernel(width, dtype=dtype)
    assert text.count("B[ramp(") == text.count("A[ramp(") == stores


def test_lanes_that_are_not_aligned_are_stored_one_by_one():
    text = copy_kernel(4, extent=254)
    assert "ramp" not in text


def test_a_row_length_that_does_not_divide_keeps_its_condition():
    assert "if " in copy_kernel(4, extent=252)


def small_matmul(step, explicit):
    A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].pragma(s[C].op.axis[0], "auto_unroll_max_step", step)
    s[C].pragma(s[C].op.axis[0], "unroll_explicit", explicit)
    return str(lower(s, [A, B, C]))


@pytest.mark.parametrize(("step", "loops"), [(0, 3), (7, 3), (8, 2), (71, 2), (72, 1), (575, 1)])
def test_loops_unroll_as_long_as_their_stores_stay_within_the_limit(step, loops):
    assert small_matmul(step, 1).count("for ") == loops


def test_without_unroll_explicit_loops_are_left_to_the_compiler():
    text = small_matmul(8, 0)
    assert text.count("for ") == 3
    assert "for k in 0..8:  # unrolled" in text


def test_a_loop_of_very_many_stores_is_left_to_the_compiler():
    A = te.placeholder((1 << 15,), name="A")
    B = te.compute((1 << 15,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].unroll(s[B].op.axis[0])
    assert "for i in 0..32768:  # unrolled" in str(lower(s, [A, B]))


def test_threads_that_touch_their_own_elements_need_no_barrier():
    A = te.placeholder((4, 32), name="A")
    B = te.compute((4, 32), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 32), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(s[C].op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(s[C].op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].set_scope("shared")
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[B].bind(s[B].op.axis[1], te.thread_axis("threadIdx.x"))
    assert "barrier" not in str(lower(s, [A, C]))


def test_threads_that_read_their_neighbours_need_one():
    A = te.placeholder((4, 33), name="A")
    B = te.compute((4, 33), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 32), lambda i, j: B[i, j] * B[i, j + 1], name="C")
    s = te.create_schedule(C.op)
    s[C].bind(s[C].op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(s[C].op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].set_scope("shared")
    s[B].compute_at(s[C], s[C].op.axis[0])
    _, lane = s[B].split(s[B].op.axis[1], factor=32)
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    assert str(lower(s, [A, C])).count("barrier") == 1


def test_an_argument_computed_and_read_in_one_kernel_needs_one_too():
    A = te.placeholder((4, 33), name="A")
    B = te.compute((4, 33), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 32), lambda i, j: B[i, j] * B[i, j + 1], name="C")
    s = te.create_schedule(C.op)
    s[C].bind(s[C].op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(s[C].op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], s[C].op.axis[0])
    _, lane = s[B].split(s[B].op.axis[1], factor=32)
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    text = str(lower(s, [A, B, C]))
    assert "B: out float32[4, 33]" in text
    assert text.count("barrier") == 1


def test_a_padded_stride_spreads_columns_over_banks():
    A = te.placeholder((32, 32), name="A")
    B = te.compute((32, 32), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    i, j = s[B].op.axis
    outer, _ = s[B].split(i, factor=32)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[B], outer)
    s[copy].bind(s[copy].op.axis[1], te.thread_axis("threadIdx.x"))
    s[copy].storage_align(s[copy].op.axis[0], 32, 1)
    text = str(lower(s, [A, B]))
    assert "float32[1056] @shared" in text
    assert "threadIdx.x * 33" in text


def test_a_hook_sees_every_pass():
    seen = []
    lower_schedule(*published(), hook=lambda name, left: seen.append((name, str(left))))
    names = [name for name, _ in seen]
    assert names == [
        "infer_bounds", "make_nests", *[each.name for each in PASSES], "kernels",
    ]  # fmt: skip
    assert "# vthread" in dict(seen)["make_nests"]
    assert "# vthread" not in dict(seen)["vthread"]


def test_every_pass_says_in_a_line_what_it_does():
    shown = subprocess.run(
        [sys.executable, "-m", "autotune.lowering"], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[0] for line in shown.splitlines()] == [each.name for each in PASSES]
    assert all(each.summary.endswith(".") for each in PASSES)
    assert "barriers     Puts barriers where" in shown


def test_parallel_loops_have_buffers_of_their_own():
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "global")
    outer, inner = s[C].split(s[C].op.axis[0], factor=8)
    s[C].parallel(outer)
    s[local].compute_at(s[C], inner)
    lines = str(lower(s, [A, C])).splitlines()
    assert "# parallel" in lines[1]
    assert "allocate C.global" in lines[2]


def test_unrolled_conditions_are_decided_or_keep_only_what_they_still_ask():
    a = te.placeholder((4,), name="A")
    padded = te.compute(
        (6,), lambda i: te.if_then_else(te.all(i >= 1, i < 5), a[i - 1], 0.0), name="P"
    )
    s = te.create_schedule(padded.op)
    s[padded].unroll(padded.op.axis[0])
    text = str(lower(s, [a, padded]))
    assert "if_then_else" not in text
    assert text.count("0.0f") == 2
    assert text.count("A[") == 4


def test_what_no_unrolled_iteration_reaches_leaves_nothing_behind():
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=2)
    middle, last = s[b].split(inner, factor=1)
    s[b].reorder(middle, outer, last)
    s[b].unroll(middle)
    s[b].unroll(outer)
    text = str(lower(s, [a, b]))
    assert text.count("B[") == 3
    assert "if" not in text
