"""Statements and whole functions as text."""

import shutil
import subprocess

import numpy as np
import pytest

from autotune.codegen import kernel_of_function, kernel_of_schedule
from autotune.emulator import run_emulated
from autotune.errors import InstantiationError, LoweringError
from autotune.ir import (
    Add,
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Broadcast,
    Buffer,
    Call,
    Cast,
    For,
    ForKind,
    If,
    IfThenElse,
    IntImm,
    LetStmt,
    Load,
    Max,
    Mul,
    Ramp,
    Select,
    Store,
    TruncDiv,
    Var,
    const,
    seq,
)
from autotune.lowering import LoweredFunction, LoweredKernel
from autotune.target import Target

A = Buffer("A", (1024,), "float32")
B = Buffer("B", (1024,), "float32")
H = Buffer("H", (1024,), "float16")
G = Buffer("G", (1024,), "float16")
W = Buffer("W", (64,), "bfloat16")
TX, BX = Var("threadIdx.x"), Var("blockIdx.x")


def kernel(body, *params, language="cuda", written=(), block=32, grid=1):
    """Return the kernel of a body; the last parameter is written unless others are."""
    written = written or params[-1:]
    roles = tuple("out" if p in written else "in" for p in params)
    launch = ((grid, 1, 1), (block, 1, 1)) if language == "cuda" else ((1, 1, 1), (1, 1, 1))
    one = LoweredKernel("f_kernel0" if language == "cuda" else "f", params, *launch, body)
    return kernel_of_function(LoweredFunction("f", params, roles, (), (one,), language), language)


def body_of(*args, **options):
    """Return the lines between the braces, without their indentation."""
    lines = kernel(*args, **options).source.splitlines()
    heads = ("f_kernel0(", "void f(")
    head = next(i for i, line in enumerate(lines) if line.startswith(heads))
    start = next(i for i in range(head, len(lines)) if lines[i].endswith("{"))
    return [line.strip() for line in lines[start + 1 : -1]]


def copy(to, source, lanes=4, base=None):
    base = TX * lanes if base is None else base
    return Store(to, (Ramp(base, 1, lanes),), Load(source, (Ramp(base, 1, lanes),)))


# -- C ---------------------------------------------------------------------------------------


def test_loop_kinds_are_pragmas():
    i, j, k = Var("i"), Var("j"), Var("k")
    inner = For(k, 2, ForKind.UNROLLED, Store(B, (i * 8 + j * 2 + k,), const(0.0)))
    body = For(i, 8, ForKind.PARALLEL, For(j, 4, ForKind.VECTORIZED, inner))
    assert body_of(body, B, language="c") == [
        "#pragma omp parallel for",
        "for (int i = 0; i < 8; ++i) {",
        "#pragma omp simd",
        "for (int j = 0; j < 4; ++j) {",
        "#pragma GCC unroll 2",
        "for (int k = 0; k < 2; ++k) {",
        "B[i * 8 + j * 2 + k] = 0.0f;",
        "}",
        "}",
        "}",
    ]


@pytest.mark.parametrize("extent", [70000, Var("n")], ids=["many", "n"])
def test_only_a_pragma_that_can_say_how_often_a_loop_runs_is_in_front_of_it(extent):
    loop = For(Var("i"), extent, ForKind.UNROLLED, Store(B, (const(0),), const(0.0)))
    args = [B, extent] if isinstance(extent, Var) else [B]
    assert body_of(loop, *args, language="c")[0].startswith("for (int i = 0; i < ")
    assert body_of(loop, *args)[0] == "#pragma unroll"


def test_only_the_outermost_of_nested_parallel_loops_is_parallel():
    i, j = Var("i"), Var("j")
    body = For(i, 2, ForKind.PARALLEL, For(j, 2, ForKind.PARALLEL, Store(B, (i + j,), const(0.0))))
    assert sum("omp" in line for line in body_of(body, B, language="c")) == 1


def test_no_loop_in_one_of_vectors_is_parallel():
    j = Var("j")
    inner = For(j, 2, ForKind.PARALLEL, Store(B, (j,), const(0.0)))
    lines = body_of(For(Var("i"), 2, ForKind.VECTORIZED, inner), B, language="c")
    assert [line for line in lines if "omp" in line] == ["#pragma omp simd"]


def test_updates_are_written_as_updates():
    index = (const(3),)
    body = seq(
        Store(B, index, Add(Load(B, index), Load(A, index))),
        Store(B, index, Mul(Load(B, index), const(2.0))),
        Store(B, index, Add(Load(A, index), Load(B, index))),
    )
    assert body_of(body, A, B, language="c") == [
        "B[3] += A[3];",
        "B[3] *= 2.0f;",
        "B[3] = A[3] + B[3];",
    ]


def test_an_else_that_is_an_if_goes_on_in_its_line():
    i = Var("i")
    last = If(i < 2, Store(B, (i,), const(1.0)), Store(B, (i,), const(2.0)))
    body = For(i, 4, ForKind.SERIAL, If(i < 1, Store(B, (i,), const(0.0)), last))
    lines = body_of(body, B, language="c")
    assert "} else if (i < 2) {" in lines
    assert "} else {" in lines


def test_large_local_arrays_come_from_the_heap_and_go_back():
    big, small = (Buffer(n, (size,), "float32", "local") for n, size in (("big", 20000), ("s", 8)))
    i = Var("i")
    work = seq(Store(big, (i,), const(0.0)), Store(small, (i,), Load(big, (i,))))
    body = For(i, 4, ForKind.PARALLEL, Allocate(big, Allocate(small, work)))
    lines = body_of(body, B, language="c")
    assert "float* const big = (float*)aligned_alloc(64, 80000);" in lines
    assert "float s[8] __attribute__((aligned(32)));" in lines
    assert lines[-2:] == ["free(big);", "}"]


def test_bfloat16_is_computed_in_float_on_a_cpu():
    index = (const(0),)
    body = Store(W, index, Mul(Load(W, index), const(2.0, "bfloat16")))
    assert body_of(body, W, language="c") == ["W[0] = float_to_bf16(bf16_to_float(W[0]) * 2.0f);"]


def test_names_that_clash_are_told_apart_also_in_the_arguments():
    x, y, z = (Buffer(n, (4,), "float32") for n in ("T.add", "T_add", "float"))
    body = Store(z, (const(0),), Add(Load(x, (const(0),)), Load(y, (const(0),))))
    found = kernel(body, x, y, z, language="c")
    assert [a.name for a in found.args] == ["T_add", "T_add_1", "float_"]
    assert "float_[0] = T_add[0] + T_add_1[0];" in found.source
    assert found.calls[0].args == ("T_add", "T_add_1", "float_")


def test_inputs_are_const_and_nothing_has_an_alias():
    source = kernel(Store(B, (const(0),), Load(A, (const(0),))), A, B, language="c").source
    assert "void f(const float* restrict A, float* restrict B) {" in source


def test_headers_are_included_only_where_they_are_needed():
    index = (const(0),)
    plain = kernel(Store(B, index, Load(A, index)), A, B, language="c").source
    assert "#include" not in plain
    own = kernel(Store(B, index, Call("exp", (Load(A, index),))), A, B, language="c").source
    assert "#include" not in own
    math = kernel(Store(B, index, Call("sin", (Load(A, index),))), A, B, language="c").source
    assert "#include <math.h>" in math


# -- CUDA ------------------------------------------------------------------------------------


def test_an_aligned_vector_is_one_load_and_one_store():
    assert body_of(copy(B, A), A, B)[1:] == [
        "*(float4*)(B + tx * 4) = *(const float4*)(A + tx * 4);"
    ]


def test_a_vector_that_may_not_be_aligned_is_taken_apart():
    lines = body_of(copy(B, A, base=TX * 5), A, B)[1:]
    assert lines == [f"B[tx * 5{o}] = A[tx * 5{o}];" for o in ("", " + 1", " + 2", " + 3")]


def test_alignment_is_followed_through_named_values():
    base = Var("base")
    body = LetStmt(base, TX * 8 + 4, copy(B, A, base=base))
    assert "*(float4*)(B + base) = *(const float4*)(A + base);" in body_of(body, A, B)
    body = LetStmt(base, TX * 8 + 2, copy(B, A, base=base))
    assert not any("float4" in line for line in body_of(body, A, B))


def test_a_wide_vector_is_stored_in_parts_of_sixteen_bytes():
    assert body_of(copy(B, A, lanes=8), A, B)[1:] == [
        "*(float4*)(B + tx * 8) = *(const float4*)(A + tx * 8);",
        "*(float4*)(B + tx * 8 + 4) = *(const float4*)(A + tx * 8 + 4);",
    ]


def test_vector_arithmetic_goes_lane_by_lane_between_wide_accesses():
    base = Ramp(TX * 2, 1, 2)
    value = Max(Add(Load(A, (base,)), Load(B, (base,))), Broadcast(const(0.0), 2))
    lines = body_of(Store(B, (base,), value), A, B)
    assert lines[1:] == [
        "{",
        "const float2 A_lanes = *(const float2*)(A + tx * 2);",
        "const float2 B_lanes = *(const float2*)(B + tx * 2);",
        "*(float2*)(B + tx * 2) = make_float2(max_float(A_lanes.x + B_lanes.x, 0.0f), "
        "max_float(A_lanes.y + B_lanes.y, 0.0f));",
        "}",
    ]


def test_a_guard_that_is_the_same_for_all_lanes_guards_the_wide_load():
    load = Load(A, (Ramp(TX * 4, 1, 4),))
    value = IfThenElse(TX < 3, load, Broadcast(const(0.0), 4))
    assert body_of(Store(B, (Ramp(TX * 4, 1, 4),), value), A, B)[1:] == [
        "*(float4*)(B + tx * 4) = (tx < 3) ? *(const float4*)(A + tx * 4) : "
        "make_float4(0.0f, 0.0f, 0.0f, 0.0f);"
    ]


def test_a_guard_that_differs_between_lanes_guards_each_load():
    base = Ramp(TX * 4, 1, 4)
    guard = base < Broadcast(const(10), 4)
    value = IfThenElse(guard, Load(A, (base,)), Broadcast(const(0.0), 4))
    text = "\n".join(body_of(Store(B, (base,), value), A, B))
    assert "(tx * 4 + 1 < 10) ? A[tx * 4 + 1] : 0.0f" in text
    assert "const float4*" not in text


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_half_vectors_move_as_words_and_compute_as_halves(lanes):
    index = Ramp(TX * lanes, 1, lanes)
    word = {2: "unsigned int", 4: "uint2", 8: "uint4"}[lanes]
    moved = "\n".join(body_of(copy(G, H, lanes=lanes), H, G))
    assert f"*({word}*)(G + tx * {lanes}) = *(const {word}*)(H + tx * {lanes});" in moved
    doubled = Store(G, (index,), Mul(Load(H, (index,)), Broadcast(const(2.0, "float16"), lanes)))
    found = kernel(doubled, H, G)
    h, g = np.arange(1024, dtype=np.float16) / 8, np.zeros(1024, np.float16)
    run_emulated(found, [h, g])
    np.testing.assert_array_equal(g[: 32 * lanes], h[: 32 * lanes] * 2)


def test_mixed_widths_convert_lane_by_lane():
    index = Ramp(TX * 4, 1, 4)
    found = kernel(Store(B, (index,), Cast(Load(H, (index,)), "float32x4")), H, B)
    h, b = np.arange(1024, dtype=np.float16) / 8, np.zeros(1024, np.float32)
    run_emulated(found, [h, b])
    np.testing.assert_array_equal(b[:128], h[:128])


def test_local_arrays_are_filled_by_lanes_so_that_they_stay_in_registers():
    local = Buffer("acc", (4,), "float32", "local")
    base = Ramp(const(0), 1, 4)
    body = Allocate(local, Store(local, (base,), Load(A, (Ramp(TX * 4, 1, 4),))))
    lines = body_of(body, A, B)
    assert "acc[1] = A_lanes.y;" in lines


def test_shared_arrays_stand_at_the_top_and_are_aligned_for_vectors():
    one, two = (Buffer(n, (128,), "float32", "shared") for n in ("one", "two"))
    work = seq(copy(one, A), Store(two, (TX,), Load(A, (TX,))), Barrier(), Barrier("warp"))
    lines = body_of(If(TX < 8, Allocate(one, Allocate(two, work))), A, B)
    assert lines[:2] == [
        "__shared__ __align__(16) float one[128];",
        "__shared__ __align__(16) float two[128];",
    ]
    assert "__syncthreads();" in lines
    assert "__syncwarp();" in lines


def test_much_shared_memory_is_asked_for_at_launch():
    one, two = (Buffer(n, (6250,), "float32", "shared") for n in ("one", "two"))
    work = seq(
        Store(one, (TX,), Load(A, (TX,))),
        Store(two, (TX,), Load(one, (TX,))),
        Store(B, (TX,), Load(two, (TX,))),
    )
    found = kernel(Allocate(one, Allocate(two, work)), A, B)
    assert found.calls[0].launch.shared_bytes == 2 * 25008
    assert "float* const two = (float*)(dynamic_shared + 25008);" in found.source
    a, b = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    run_emulated(found, [a, b])
    np.testing.assert_array_equal(b[:32], a[:32])


def test_ranges_of_thread_indices_are_told_where_something_is_divided():
    divided = body_of(Store(B, (TruncDiv(TX, IntImm(3)),), const(0.0)), B)
    assert divided[:2] == ["const int tx = threadIdx.x;", "__builtin_assume(0 <= tx && tx < 32);"]
    assert not any("assume" in line for line in body_of(Store(B, (TX,), const(0.0)), B))


def test_asynchronous_copies():
    tile = Buffer("tile", (128,), "float32", "shared")
    work = seq(
        AsyncCopy(tile, TX * 4, A, TX * 4, 16),
        AsyncCommit(),
        AsyncWait(0),
        Barrier(),
        Store(B, (TX,), Load(tile, (Select(TX < 1, const(5), TX),))),
    )
    found = kernel(Allocate(tile, work), A, B)
    assert "#include <cuda_pipeline.h>" in found.source
    assert "__pipeline_memcpy_async(tile + tx * 4, A + tx * 4, 16);" in found.source
    assert "__shared__ __align__(16) float tile[128];" in found.source
    a, b = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    run_emulated(found, [a, b])
    np.testing.assert_array_equal(b[:32], [5, *range(1, 32)])


def test_a_gpu_loop_that_lowering_left_bound_is_our_fault():
    body = For(Var("i"), 4, ForKind.THREAD, Store(B, (const(0),), const(0.0)), "threadIdx.x")
    with pytest.raises(AssertionError, match="loop 'i' is left of kind thread"):
        kernel(body, B)


def test_there_is_no_barrier_on_a_cpu():
    with pytest.raises(LoweringError, match="no barrier of scope 'shared'"):
        kernel(Barrier(), B, language="c")


def test_a_limit_of_the_device_is_kept():
    from autotune import te

    x = te.placeholder((4096,), name="X")
    y = te.compute((4096,), lambda i: x[i] * 2.0, name="Y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[0], factor=2048)
    s[y].bind(outer, te.thread_axis("blockIdx.x"))
    s[y].bind(inner, te.thread_axis("threadIdx.x"))
    target = Target("cuda -arch=sm_90")
    with pytest.raises(InstantiationError, match="2048"):
        kernel_of_schedule(s, [x, y], target, "f", limits=target.limits)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_nvcc_takes_what_is_printed(tmp_path):
    index, wide = (const(0),), Ramp(TX * 8, 1, 8)
    tile = Buffer("tile", (512,), "float16", "shared")
    work = seq(
        Store(B, index, Call("sigmoid", (Load(A, index),))),
        Store(W, index, Cast(Load(H, index), "bfloat16")),
        Store(G, (wide,), Mul(Load(H, (wide,)), Broadcast(const(float("inf"), "float16"), 8))),
        AsyncCopy(tile, TX * 8, H, TX * 8, 16),
        AsyncCommit(),
        AsyncWait(0),
        Store(G, index, Call("tanh", (Load(tile, (IntImm(3),)),))),
    )
    body = Allocate(tile, work)
    path = tmp_path / "f.cu"
    path.write_text(kernel(body, A, H, W, B, G, written=(W, B, G)).source)
    command = ["nvcc", "-cubin", "-arch=sm_90", str(path), "-o", str(tmp_path / "f.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
