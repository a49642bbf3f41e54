"""What cannot be lowered is refused in words that name the stage and the call to change."""

import pytest
import workloads

from autotune import te
from autotune.driver import build, lower
from autotune.errors import InstantiationError, LoweringError
from autotune.lowering import lower_schedule
from autotune.target import Limits


def two_stages():
    A = te.placeholder((64, 32), name="A")
    B = te.compute((64, 32), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((64, 32), lambda i, j: B[i, j] * 2.0, name="C")
    return A, B, C, te.create_schedule(C.op)


def bind(s, T, axis, tag):
    s[T].bind(axis, te.thread_axis(tag))


def refused(s, args, *words, error=LoweringError, **kwargs):
    with pytest.raises(error) as caught:
        lower_schedule(s, args, **kwargs)
    for word in words:
        assert word in str(caught.value)


def test_stages_that_disagree_about_threads():
    A, B, C, s = two_stages()
    bind(s, C, s[C].op.axis[0], "blockIdx.x")
    _, lane = s[C].split(s[C].op.axis[1], factor=8)
    bind(s, C, lane, "threadIdx.x")
    s[B].set_scope("shared")
    s[B].compute_at(s[C], s[C].op.axis[0])
    _, own = s[B].split(s[B].op.axis[1], factor=16)
    bind(s, B, own, "threadIdx.x")
    refused(s, [A, C], "bind", "B has 16 iterations", "threadIdx.x", "8 (from C)")


def test_a_gpu_stage_with_no_thread():
    A, _, C, s = two_stages()
    bind(s, C, s[C].op.axis[0], "blockIdx.x")
    refused(s, [A, C], "B", "none of its loops is bound", "compute_at", target_kind="cuda")


def test_loops_for_a_gpu_that_are_not_bound_yet_are_printed_and_not_built():
    A, _, C, s = two_stages()
    bind(s, C, s[C].op.axis[0], "blockIdx.x")
    lowered = lower(s, [A, C])
    text = str(lowered)
    assert "loops of B, no kernel yet:\n    for i in" in text
    assert "launch main_kernel1 grid=(64, 1, 1)" in text
    for arguments in ((lowered,), (s, [A, C])):
        with pytest.raises(LoweringError, match=r"B: .* none of its loops is bound"):
            build(*arguments, target="cuda -arch=sm_90")


def test_a_cache_that_is_not_attached_yet_is_printed_and_not_built():
    A, B, C, s = two_stages()
    shared = s.cache_read(A, "shared", [B])
    bind(s, B, s[B].op.axis[0], "blockIdx.x")
    bind(s, C, s[C].op.axis[0], "blockIdx.x")
    bind(s, shared, s[shared].op.axis[0], "threadIdx.x")
    lowered = lower(s, [A, C])
    assert "loops of A.shared, no kernel yet:" in str(lowered)
    with pytest.raises(LoweringError, match=r"A\.shared has scope 'shared' .* compute_at"):
        build(lowered, target="cuda -arch=sm_90")


def test_a_reader_outside_the_loop():
    A, B, C, s = two_stages()
    D = te.compute((64, 32), lambda i, j: B[i, j] + C[i, j], name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[C], s[C].op.axis[0])
    refused(s, [A, D], "compute_at", "B is attached to axis 'i' of C", "D reads it outside")


def test_attached_to_a_stage_that_is_inlined():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((8,), lambda i: C[i] - 1.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[C].compute_inline()
    refused(s, [A, D], "compute_at", "B is attached to C", "inlined")


def test_an_input_that_is_no_argument():
    _, _, C, s = two_stages()
    refused(s, [C], "A is read", "argument list")


def test_an_argument_given_twice():
    A, _, C, s = two_stages()
    refused(s, [A, C, A], "given twice")


def test_an_inlined_argument_is_printed_as_unused_and_not_built():
    A, B, C, s = two_stages()
    s[B].compute_inline()
    with pytest.warns(UserWarning, match="B is an argument, .* nothing is stored in it"):
        assert "B[" not in str(lower(s, [A, B, C]))
    refused(s, [A, B, C], "compute_inline", "B is an output or argument", target_kind="c")


def test_shared_memory_outside_a_kernel():
    A, B, C, s = two_stages()
    for T in (B, C):
        bind(s, T, s[T].op.axis[0], "threadIdx.x")
    s[B].set_scope("shared")
    refused(s, [A, C], "set_scope", "B", "compute_at", target_kind="cuda")


def test_a_size_that_nothing_says():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n + 1,), name="A")
    B = te.compute((n + 1,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    refused(s, [A, B], "the extent n + 1 needs 'n'", "add it to the argument list")
    refused(s, [m, A, B], "the extent n + 1 needs 'n'")
    assert "n: int32" in str(lower_schedule(s, [n, A, B]))


def test_a_number_in_a_body_that_is_no_argument():
    k = te.var("k")
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + k, name="B")
    refused(te.create_schedule(B.op), [A, B], "'k'", "add it to the argument list")


def test_a_size_of_64_bits():
    n = te.var("n", "int64")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    refused(te.create_schedule(B.op), [A, B], "'n' is of dtype int64", "int32")


@pytest.mark.parametrize("tag", ["threadIdx.x", "vthread"])
def test_as_many_threads_as_a_size_says(tag):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis(tag))
    refused(s, [A, B], f"the number of {tag} must be a constant", "split it")


def test_a_vector_as_long_as_a_size_says():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    refused(s, [A, B], "vectorize", "runs n times", "split it by a constant factor")


def test_shared_memory_as_large_as_a_size_says():
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, n), lambda i, j: B[i, n - 1 - j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    _, tx = s[C].split(C.op.axis[1], factor=32)
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("shared")
    _, tx = s[B].split(B.op.axis[1], factor=32)
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    refused(s, [A, C], "B: n elements", "expected a constant number")


def test_data_loops_inside_the_loops_of_a_reduction_over_threads():
    work = workloads.matmul()
    C = work.output
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    outer, lane = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(i, outer, lane, j)
    bind(s, C, i, "blockIdx.x")
    bind(s, C, lane, "threadIdx.x")
    refused(s, work.args, "bind", "C reduces over threads", "'j'", "reorder")


def test_a_first_value_computed_after_it_is_read():
    A, first = te.placeholder((4, 8), name="A"), te.placeholder((4,), name="first")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=first[i]), name="B")
    s = te.create_schedule(B.op)
    cache = s[s.cache_read(first, "local", [B])]
    cache.compute_at(s[B], s[B].op.reduce_axis[0])
    refused(
        s, [A, first, B], "compute_at: first.local", "init", "at 'k'", "outside", target_kind="c"
    )
    cache.compute_at(s[B], s[B].op.axis[0])
    lower_schedule(s, [A, first, B], target_kind="c")
    outer, lane = s[B].split(s[B].op.reduce_axis[0], factor=4)
    bind(s, B, lane, "threadIdx.x")
    cache.compute_at(s[B], outer)
    refused(s, [A, first, B], "compute_at: first.local", "init", "at 'k.outer'", "outside")


def test_a_buffer_too_large_for_an_index():
    A = te.placeholder((1 << 16, 1 << 16), name="A")
    B = te.compute((1,), lambda i: A[i, i], name="B")
    refused(te.create_schedule(B.op), [A, B], "A has 4294967296 elements")


def test_threads_on_a_cpu_and_parallel_loops_on_a_gpu():
    A, _, C, s = two_stages()
    bind(s, C, s[C].op.axis[0], "threadIdx.x")
    refused(s, [A, C], "bind: 'i' of C", "the target is a CPU", target_kind="c")
    A, B, C, s = two_stages()
    s[B].compute_inline()
    bind(s, C, s[C].op.axis[0], "threadIdx.x")
    s[C].parallel(s[C].op.axis[1])
    refused(s, [A, C], "parallel: 'j' of C", "the target is a GPU")


def bound(threads, cached=0):
    """A copy in blocks of so many threads, with so many floats in shared memory."""
    A = te.placeholder((4, max(threads, cached)), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    _, lane = s[B].split(j, factor=threads)
    bind(s, B, i, "blockIdx.x")
    bind(s, B, lane, "threadIdx.x")
    if cached:
        copy = s.cache_read(A, "shared", [B])
        s[copy].compute_at(s[B], i)
        _, own = s[copy].split(s[copy].op.axis[1], factor=threads)
        bind(s, copy, own, "threadIdx.x")
    return s, [A, B]


@pytest.mark.parametrize(
    ("schedule", "limits", "words"),
    [
        (bound(2048), Limits(), "threads per block is 2048, at most 1024"),
        (bound(512), Limits(threads_per_block=256), "threads per block is 512, at most 256"),
        (bound(512), Limits(block_dim=(256, 64, 64)), "extent of threadIdx.x is 512"),
        (bound(64, 16384), Limits(), "bytes of shared memory per block is 65536, at most 49152"),
        (bound(32), Limits(grid_dim=(2, 1, 1)), "extent of blockIdx.x is 4"),
    ],
)
def test_a_kernel_that_breaks_a_limit_is_refused_before_it_is_written_out(schedule, limits, words):
    s, args = schedule
    refused(s, args, words, error=InstantiationError, limits=limits)


def test_a_kernel_within_the_limits_passes():
    s, args = bound(64, 16384)
    limits = Limits(shared_bytes_optin=100 * 1024)
    lower_schedule(s, args, limits=limits)


def test_private_arrays_have_a_limit():
    A = te.placeholder((16384,), name="A")
    B = te.compute((16384,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((1,), lambda i: B[i] + B[i + 16383], name="C")
    s = te.create_schedule(C.op)
    bind(s, C, s[C].op.axis[0], "threadIdx.x")
    s[B].set_scope("local")
    s[B].compute_at(s[C], s[C].op.axis[0])
    words = "bytes of private arrays per thread"
    refused(s, [A, C], words, error=InstantiationError, limits=Limits())


def test_a_cpu_function_breaks_no_limit():
    A, _, C, s = two_stages()
    lower_schedule(s, [A, C], limits=Limits(threads_per_block=1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": None}, ("expected a schedule, as te.create_schedule makes it, got None",)),
        ({"schedule": []}, ("expected a schedule", "got list")),
        ({"schedule": "tensor"}, ("expected a schedule", "got Tensor 'A'")),
        ({"args": None}, ("expected the list of tensors", "[A, B]", "got None")),
        ({"args": 5}, ("expected the list of tensors", "got int")),
        ({"args": "tensor"}, ("a list of tensors: write [A]",)),
        ({"args": [None]}, ("argument 0 must be a tensor or a te.var, got None",)),
        ({"args": ["A", "C"]}, ("argument 0 must be a tensor or a te.var, got str",)),
        ({"name": ""}, ("expected a name for the function, got ''",)),
        ({"name": 5}, ("expected a name for the function, got 5",)),
    ],
)
def test_nonsense_is_refused_by_name(change, words):
    A, _, C, s = two_stages()
    given = {"schedule": s, "args": [A, C], "name": "main"} | change
    wrong = {key: A if value == "tensor" else value for key, value in given.items()}
    refused(wrong.pop("schedule"), wrong.pop("args"), *words, **wrong)


def test_an_operation_is_no_argument():
    A, _, C, s = two_stages()
    refused(s, [A, C.op], "argument 1 must be a tensor or a te.var, got ComputeOp 'C'")


def test_a_schedule_of_inputs_only():
    A = te.placeholder((8,), name="A")
    refused(te.create_schedule(A.op), [A], "computes nothing")


def test_the_arguments_may_be_any_iterable():
    A, _, C, s = two_stages()
    assert lower_schedule(s, iter([A, C])).args[1].name == "C"
