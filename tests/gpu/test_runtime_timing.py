import numpy as np
import pytest

from autotune.kernel import SourceKernel, arg
from autotune.runtime import TimeOptions, ceilings_of, compile_kernel, cuda, load, roofline
from autotune.runtime.nvidia import nvml
from autotune.runtime.nvidia.driver import activated, driver
from autotune.runtime.nvidia.executable import rotation
from autotune.target import Target
from autotune.target.query import cuda_device

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

SPIN = """
extern "C" __global__ void spin(float *y) {
  long long start = clock64();
  while (clock64() - start < CYCLES) {}
  if (threadIdx.x == 0) y[0] = 1;
}
"""
READ = """
extern "C" __global__ void total(const float4 *x, float *y) {
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N / 4; i += gridDim.x * blockDim.x) {
    float4 v = x[i];
    s += v.x + v.y + v.z + v.w;
  }
  if (s == -12345.678f) y[0] = s;
}
"""


@pytest.fixture
def loaded(tmp_path):
    opened = []

    def make(kernel):
        output = compile_kernel(kernel.kernel("cuda"), Target("cuda"), out_dir=tmp_path)
        opened.append(load(output.artifact, kernel.kernel("cuda"), cuda()))
        return opened[-1]

    yield make
    for executable in opened:
        executable.close()


def spin(cycles):
    return SourceKernel("spin", SPIN, [arg("y", (1,), role="out")], {"CYCLES": cycles}, block=32)


def read(n):
    args = [arg("x", (n,)), arg("y", (1,), role="out")]
    return SourceKernel("total", READ, args, {"N": n}, grid=264, block=512)


def time(executable, **options):
    return executable.time(executable.allocate(), TimeOptions(**options))


def test_twice_the_work_takes_twice_the_time(loaded):
    short, long = loaded(spin(200_000)), loaded(spin(400_000))
    ratio = time(long, repeat=5).median / time(short, repeat=5).median
    assert 1.7 < ratio < 2.3


def test_the_time_is_in_seconds(loaded):
    timing = time(loaded(spin(2_000_000)), number=3, repeat=5)
    clock_hz = 1e3 * driver.Device(0).get_attribute(driver.device_attribute.CLOCK_RATE)
    expected = 2_000_000 / clock_hz
    assert 0.8 * expected < timing.median < 4 * expected
    assert timing.ci95[0] <= timing.median <= timing.ci95[1]
    assert timing.noise_floor is not None


def test_a_graph_gives_the_same_time_for_a_long_kernel(loaded):
    executable = loaded(spin(500_000))
    plain = time(executable, repeat=5, use_graph=False)
    graph = time(executable, repeat=5, use_graph=True)
    assert 0.9 < graph.median / plain.median < 1.1


def test_a_graph_shows_a_short_kernel_without_its_launch(loaded):
    executable = loaded(spin(10))
    plain = time(executable, number=200, repeat=5, use_graph=False).median
    graph = time(executable, number=200, repeat=5, use_graph=True).median
    chosen = time(executable, number=200, repeat=5).median
    assert graph < 0.8 * plain
    assert chosen < 0.8 * plain


def test_a_graph_runs_every_call_and_clears_workspaces(loaded):
    from autotune.kernel import call, workspace

    source = """
    extern "C" __global__ void part(const float *x, float *w) { atomicAdd(w, x[threadIdx.x]); }
    extern "C" __global__ void out(const float *w, float *y) { y[0] = 2 * w[0]; }
    """
    kernel = SourceKernel(
        "sum",
        source,
        [arg("x", (256,)), arg("y", (1,), role="out")],
        calls=[call("part", ["x", "w"], 1, 256), call("out", ["w", "y"])],
        workspace=[workspace("w", (1,), zero=True)],
    )
    executable = loaded(kernel)
    buffers = executable.allocate([np.ones(256, "float32")])
    timing = executable.time(buffers, TimeOptions(number=300, repeat=2, use_graph=True))
    assert timing.median > 0
    assert buffers.read()[0][0] == 512


def test_cold_caches_make_reading_slower(loaded):
    n = cuda_device().l2_bytes // 4 // 4
    executable = loaded(read(n))
    warm = time(executable, repeat=7, input_sets=1).median
    cold = time(executable, repeat=7, flush_cache=True).median
    assert cold > 1.2 * warm


def test_sets_in_turn_are_as_slow_as_cold_caches(loaded):
    n = cuda_device().l2_bytes // 4 // 4
    executable = loaded(read(n))
    buffers = executable.allocate()
    assert rotation(buffers) * buffers.bytes > cuda_device().l2_bytes
    warm = executable.time(buffers, TimeOptions(repeat=7, input_sets=1))
    turned = executable.time(buffers, TimeOptions(repeat=7))
    assert (warm.input_sets, turned.input_sets) == (1, rotation(buffers))
    assert turned.median > 1.1 * warm.median


def test_inputs_larger_than_the_cache_need_one_set(loaded):
    executable = loaded(read(cuda_device().l2_bytes))
    assert rotation(executable.allocate()) == 1


def test_in_place_kernels_are_timed_with_their_arguments_restored(loaded):
    source = """
    extern "C" __global__ void grow(float *x) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      x[i] = x[i] * 2;
    }
    """
    n = 1 << 20
    kernel = SourceKernel("grow", source, [arg("x", (n,), role="inout")], grid=n // 256, block=256)
    executable = loaded(kernel)
    buffers = executable.allocate()
    timing = executable.time(buffers, TimeOptions(number=50, repeat=3, input_sets=1))
    np.testing.assert_array_equal(buffers.read()[0], 2 * buffers.read_inputs()[0])
    # 8 MiB through a cache or memory: microseconds, not what queueing from Python takes.
    assert 1e-6 < timing.median < 50e-6


def test_a_hopeless_kernel_is_cut_short(loaded):
    timing = time(loaded(spin(50_000_000)), number=100, repeat=100, give_up_after_s=1e-3)
    assert timing.cut_short
    assert len(timing.samples_s) == 1


def test_a_repeat_lasts_as_long_as_asked(loaded):
    timing = time(loaded(spin(20_000)), number=1, repeat=2, min_repeat_ms=20)
    assert timing.number * timing.median >= 0.018


def test_clocks_are_read_where_the_driver_tells(loaded):
    timing = time(loaded(spin(2_000_000)), repeat=3)
    with activated(0):
        bus = driver.Device(0).pci_bus_id()
    if nvml.handle(bus) is None:
        assert timing.clocks is None
        pytest.skip("NVML does not tell")
    assert timing.clocks.sm_mhz > 100
    assert timing.clocks.temperature_c > 5
    assert time(loaded(spin(2_000)), observe=False).clocks is None


def test_two_kernels_are_timed_in_turn(loaded):
    fast, slow = loaded(spin(50_000)), loaded(spin(100_000))
    options = TimeOptions(input_sets=1)
    samplers = [one.sampler(one.allocate(), options) for one in (fast, slow)]
    rounds = [[sampler.sample(5) for sampler in samplers] for _ in range(6)]
    assert all(a < b for a, b in rounds[1:])


def test_the_ceilings_are_those_of_such_a_device(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    ceilings = ceilings_of(cuda())
    print(ceilings)
    assert 1e11 < ceilings.bytes_per_s < 2e13
    assert 1e12 < ceilings.flops["float32"] < 1e15
    assert ceilings.flops["float16"] > ceilings.flops["float32"]
    monkeypatch.setattr(roofline, "_measure", lambda *_: pytest.fail("measured again"))
    assert ceilings_of(cuda()) == ceilings
