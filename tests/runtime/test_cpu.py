from pathlib import Path

import numpy as np
import pytest

from autotune.errors import DeviceError, KernelError
from autotune.kernel import Kernel, SourceKernel, arg, call, workspace
from autotune.runtime import Buffers, TimeOptions, compile_kernel, cpu, load
from autotune.runtime.arrays.buffers import sets_beyond
from autotune.runtime.host.executable import l2_bytes
from autotune.target import Target

N = 1000


@pytest.fixture
def loaded(tmp_path):
    """Compile and load; everything is closed at the end."""
    opened = []

    def make(kernel):
        output = compile_kernel(kernel, Target("c"), out_dir=tmp_path)
        opened.append(load(output.artifact, kernel, cpu()))
        return opened[-1]

    yield make
    for executable in opened:
        executable.close()


def kernel(name, source, args, **options):
    return SourceKernel(name, source, args, {"N": N}, **options).kernel("c")


ADD = kernel(
    "add",
    "void add(const float *a, const float *b, float *c) {\n"
    "#pragma omp parallel for\n  for (int i = 0; i < N; i++) c[i] = a[i] + b[i]; }",
    [arg("a", (N,)), arg("b", (N,)), arg("c", (N,), role="out")],
)
INCREMENT = kernel(
    "increment",
    "void increment(int *x) { for (int i = 0; i < N; i++) x[i]++; }",
    [arg("x", (N,), "int32", role="inout")],
)


def test_a_kernel_computes_what_it_says(loaded):
    executable = loaded(ADD)
    buffers = executable.allocate()
    executable.run(buffers)
    a, b = buffers.read_inputs()
    np.testing.assert_array_equal(buffers.read()[0], a + b)


def test_given_inputs_are_used(loaded):
    executable = loaded(ADD)
    ones = np.ones(N, "float32")
    buffers = executable.allocate([ones, 2 * ones])
    executable.run(buffers)
    assert (buffers.read()[0] == 3).all()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.ones(N, "float32")], r"expected 2 arrays \(a, b\), got 1"),
        ([np.ones(N, "float32"), np.ones(N)], r"'b': expected float32\[1000\], got float64"),
        (
            [np.ones((2, N), "float32")] * 2,
            r"'a': expected float32\[1000\], got float32\[2, 1000\]",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs, message):
    with pytest.raises(KernelError, match=message):
        Buffers(ADD.args, cpu(), inputs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64"])
def test_outputs_are_poisoned_and_inputs_have_no_zeros(dtype):
    buffers = Buffers([arg("x", (500,), dtype), arg("y", (500,), dtype, role="out")], cpu())
    (x,), (y,) = buffers.read_inputs(), buffers.read()
    assert (x != 0).all()
    assert len(np.unique(x.astype("float64"))) > 5
    assert np.isnan(y.astype("float64")).all() if "float" in dtype else len(np.unique(y)) == 1


def test_an_output_that_is_not_written_stays_poisoned(loaded):
    half = kernel(
        "half",
        "void half(float *y) { for (int i = 0; i < N / 2; i++) y[i] = 1; }",
        [arg("y", (N,), role="out")],
    )
    executable = loaded(half)
    buffers = executable.allocate()
    executable.run(buffers)
    assert np.isnan(buffers.read()[0]).sum() == N // 2
    buffers.reset()
    assert np.isnan(buffers.read()[0]).all()


def test_the_same_seed_gives_the_same_inputs():
    first, again, other = (Buffers(ADD.args, cpu(), seed=s).read_inputs() for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_in_place_arguments_are_restored_between_runs(loaded):
    executable = loaded(INCREMENT)
    buffers = executable.allocate()
    (before,) = buffers.read_inputs()
    for _ in range(3):
        executable.run(buffers)
    np.testing.assert_array_equal(buffers.read()[0], before + 3)
    buffers.reset()
    np.testing.assert_array_equal(buffers.read()[0], before)
    np.testing.assert_array_equal(buffers.read_inputs()[0], before)
    executable.time(buffers, TimeOptions(number=5, repeat=2))
    np.testing.assert_array_equal(buffers.read()[0], before + 1)


def test_several_calls_run_in_order_over_a_workspace(loaded):
    source = """
    void partial(const float *x, float *w) { for (int i = 0; i < N; i++) w[i % 4] += x[i]; }
    void total(const float *w, float *y) { y[0] = w[0] + w[1] + w[2] + w[3]; }
    """
    two = kernel(
        "sum",
        source,
        [arg("x", (N,)), arg("y", (1,), role="out")],
        calls=[call("partial", ["x", "w"]), call("total", ["w", "y"])],
        workspace=[workspace("w", (4,), zero=True)],
    )
    executable = loaded(two)
    buffers = executable.allocate()
    for _ in range(3):  # the workspace is cleared each time
        executable.run(buffers)
        np.testing.assert_allclose(buffers.read()[0][0], buffers.read_inputs()[0].sum(), atol=1e-3)
    executable.time(buffers, TimeOptions(number=3, repeat=1))
    np.testing.assert_allclose(buffers.read()[0][0], buffers.read_inputs()[0].sum(), atol=1e-3)


def test_time_is_that_of_the_kernel(loaded):
    # It takes 5 ms of CPU time, which is what counts where other programs take its core.
    source = """
    #define _POSIX_C_SOURCE 200809L
    #include <time.h>
    static double spent() {
      struct timespec now;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return now.tv_sec + 1e-9 * now.tv_nsec;
    }
    void work(double *runs) {
      static int count;
      double end = spent() + 5e-3;
      while (spent() < end) {}
      *runs = ++count;
    }
    """
    work = kernel("work", source, [arg("runs", (1,), "float64", role="out")])
    executable = loaded(work)
    buffers = executable.allocate()
    timing = executable.time(buffers, TimeOptions(number=2, repeat=5, input_sets=1))
    assert 5e-3 <= timing.median < 7e-3
    assert len(timing.samples_s) == 5
    assert buffers.read()[0] == 1 + 2 * (5 + timing.dropped)
    assert timing.ci95[0] <= timing.median <= timing.ci95[1]
    cut = executable.time(buffers, TimeOptions(number=1000, repeat=50, give_up_after_s=1e-3))
    assert cut.cut_short
    grown = executable.time(buffers, TimeOptions(number=1, repeat=1, min_repeat_ms=12))
    assert grown.number >= 3


def test_input_sets_have_equal_values_and_are_all_used(loaded):
    executable = loaded(ADD)
    buffers = executable.allocate()
    timing = executable.time(buffers, TimeOptions(number=6, repeat=1, input_sets=3))
    assert timing.input_sets == len(buffers.sets) == 3
    results = [arrays[2].numpy() for arrays in buffers.sets]
    assert all(np.array_equal(one, results[0]) for one in results)


def test_sets_take_turns_from_sample_to_sample(loaded):
    count = kernel(
        "count",
        "static int calls; void count(const int *x, int *y) { *y = ++calls; }",
        [arg("x", (1,), "int32"), arg("y", (1,), "int32", "out")],
    )
    executable = loaded(count)
    buffers = executable.allocate()
    sampler = executable.sampler(buffers, TimeOptions(input_sets=4))
    for number in (3, 3, 5):
        sampler.sample(number)
    assert [int(y.numpy()[0]) for _, y in buffers.sets] == [9, 10, 11, 8]


def test_arguments_that_fit_the_cache_of_a_core_are_rotated(loaded):
    executable = loaded(ADD)
    sets = executable.time(executable.allocate(), TimeOptions(number=1, repeat=1)).input_sets
    assert sets == (16 if l2_bytes() else 1)  # 12 KB each
    assert (l2_bytes() > 1 << 16) == Path("/sys/devices/system/cpu/cpu0/cache/index2").exists()


@pytest.mark.parametrize(
    ("set_bytes", "sets"),
    [(1001, 1), (1000, 3), (500, 4), (100, 16), (94, 17), (1, 17)],
)
def test_so_many_sets_are_more_than_the_cache_holds(set_bytes, sets):
    assert sets_beyond(set_bytes, cache_bytes=1000, most=17) == sets


def test_new_sets_are_poisoned_like_the_first():
    buffers = Buffers(ADD.args, cpu())
    buffers.grow(3)
    assert all(np.isnan(arrays[2].numpy()).all() for arrays in buffers.sets)


@pytest.mark.parametrize("index", [None, 1])
def test_any_byte_can_be_the_poison_of_all_sets_or_of_one(index):
    buffers = Buffers([arg("y", (4,), "uint8", "out"), arg("z", (4,), "uint8", "inout")], cpu())
    buffers.grow(2)
    for arrays in buffers.sets:
        arrays[1].fill_bytes(7)
    before = buffers.read_inputs()[0][0]
    buffers.reset(0x5A, index)
    chosen = [index in (None, i) for i in range(2)]
    assert [int(y.numpy()[0]) for y, _ in buffers.sets] == [0x5A if c else 0xFF for c in chosen]
    assert [int(z.numpy()[0]) for _, z in buffers.sets] == [before if c else 7 for c in chosen]


# Random reads: their cost is latency, which the prefetchers cannot hide.
WALKS = """
#include <time.h>
static double now(void) {
  struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec;
}
void walks(const int *next, int *y, double *took) {
  for (int walk = 0; walk < 2; walk++) {
    double begin = now();
    int i = 0;
    for (int k = 0; k < STEPS; k++) i = next[i];
    y[walk] = i;
    took[walk] = now() - begin;
  }
}"""


def test_a_cold_run_reads_memory_and_a_warm_one_the_cache(loaded):
    """A cold run takes longer for what it reads first than for the same once more."""
    size = 1 << 16
    args = [arg("next", (size,), "int32"), arg("y", (2,), "int32", "out")]
    args += [arg("took", (2,), "float64", "out")]
    executable = loaded(SourceKernel("walks", WALKS, args, {"STEPS": 4000}).kernel("c"))
    order = np.random.default_rng(0).permutation(size).astype("int32")
    following = np.empty(size, "int32")
    following[order] = np.roll(order, -1)
    buffers = executable.allocate([following])

    def ratios(**more):  # of the last of twenty runs, all on the same arrays
        options = TimeOptions(number=20, repeat=1, input_sets=1, **more)
        for _ in range(40):
            executable.time(buffers, options)
            first, again = buffers.sets[0][2].numpy()
            yield first / again

    # What others do takes cache and time from either walk, but not from most of those it may.
    assert np.median(list(ratios(flush_cache=True))) > 3
    assert min(ratios()) < 1.5


def test_candidates_of_one_task_share_buffers(loaded):
    first, second = (
        loaded(ADD),
        loaded(kernel("add", ADD.source.replace("parallel for", "simd"), ADD.args)),
    )
    buffers = first.allocate()
    second.run(buffers)
    assert not np.isnan(buffers.read()[0]).any()
    with pytest.raises(KernelError, match="made for other arguments"):
        loaded(INCREMENT).run(buffers)


def test_two_kernels_are_timed_in_turn(loaded):
    executable = loaded(ADD)
    buffers = executable.allocate()
    samplers = [executable.sampler(buffers, TimeOptions()) for _ in range(2)]
    for _ in range(3):
        assert all(sampler.sample(2) > 0 for sampler in samplers)


def test_a_static_function_is_an_entry_as_well(loaded):
    hidden = kernel(
        "hidden", "static void hidden(float *y) { *y = 7; }", [arg("y", (1,), role="out")]
    )
    executable = loaded(hidden)
    buffers = executable.allocate()
    executable.run(buffers)
    assert buffers.read()[0] == 7


def test_a_hundred_arguments_arrive(loaded):
    names = [f"a{i}" for i in range(100)]
    body = " ".join(f"{name}[0] = {i};" for i, name in enumerate(names))
    source = f"void many({', '.join('float *' + n for n in names)}) {{ {body} }}"
    many = kernel("many", source, [arg(n, (1,), role="out") for n in names])
    executable = loaded(many)
    buffers = executable.allocate()
    executable.run(buffers)
    assert [float(y[0]) for y in buffers.read()] == list(range(100))


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(DeviceError, match=r"'.cubin' file does not run on cpu:0"):
        load(tmp_path / "x.cubin", ADD, cpu())
    (tmp_path / "x.so").write_bytes(b"garbage")
    with pytest.raises(DeviceError) as caught:
        load(tmp_path / "x.so", ADD, cpu())
    first, where = str(caught.value).splitlines()
    assert first.startswith("kernel 'add': cannot be loaded: ")
    assert str(tmp_path) not in first
    assert where == f"[file: {tmp_path / 'x.so'}]"


def test_threads_of_openmp_survive_the_unloading_of_kernels(tmp_path):
    for i in range(20):
        variant = Kernel(**{**ADD.__dict__, "source": ADD.source + f"\nint unused_{i};"})
        output = compile_kernel(variant, Target("c"), out_dir=tmp_path)
        with load(output.artifact, variant, Target("c")) as executable:
            buffers = executable.allocate()
            executable.run(buffers)
            assert not np.isnan(buffers.read()[0]).any()
