import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from autotune.errors import CompileError, CompilerMissing, CompileTimeout, DeviceError, KernelError
from autotune.kernel import SourceKernel, arg, call, workspace
from autotune.kernel.kernel import ITEM_BYTES
from autotune.runtime import array, compile_kernel, cpu, cuda, empty, from_dlpack, load
from autotune.runtime.arrays.array import numpy_dtype
from autotune.runtime.compile import cuda_compilers
from autotune.runtime.nvidia import driver as cuda_driver
from autotune.target import Target

pytestmark = pytest.mark.gpu

DEVICE = Target("cuda")
ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
}
"""


def add(n=1000, **options):
    args = [arg("a", (n,)), arg("b", (n,)), arg("c", (n,), role="out")]
    defines = {"N": n, **options.pop("defines", {})}
    launch = {} if "calls" in options else {"grid": -(-n // 256), "block": 256}
    source = options.pop("source", ADD)
    return SourceKernel("add", source, args, defines, **launch, **options).kernel("cuda")


@pytest.fixture
def loaded(tmp_path):
    opened = []

    def make(kernel, **options):
        output = compile_kernel(kernel, DEVICE, out_dir=tmp_path, **options)
        opened.append(load(output.artifact, kernel, cuda()))
        return opened[-1]

    yield make
    for executable in opened:
        executable.close()


# ---- arrays ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_values_survive_the_way_to_the_device_and_back(dtype):
    expected = np.arange(1, 25).reshape(4, 6).astype(numpy_dtype(dtype))
    ours = array(expected, cuda())
    assert ours.device == cuda(0)
    np.testing.assert_array_equal(ours.numpy(), expected)
    np.testing.assert_array_equal(ours.copyto(cpu()).numpy(), expected)
    np.testing.assert_array_equal(ours.copyto(cuda()).numpy(), expected)
    np.testing.assert_array_equal(
        array(expected).copyto(empty((4, 6), dtype, cuda())).numpy(), expected
    )


@pytest.mark.alone
def test_an_array_on_the_device_is_freed():
    gc.collect()
    with cuda_driver.activated(0):
        before = cuda_driver.driver.mem_get_info()[0]
    big = empty((1 << 30,), "int8", cuda())
    with cuda_driver.activated(0):
        during = cuda_driver.driver.mem_get_info()[0]
    del big
    gc.collect()
    with cuda_driver.activated(0):
        after = cuda_driver.driver.mem_get_info()[0]
    assert before - during >= 1 << 30
    assert after - during >= 1 << 30


def test_an_array_that_does_not_fit_is_an_error_of_ours():
    with pytest.raises(DeviceError, match="memory"):
        empty((1 << 50,), "int8", cuda())


def test_any_thread_may_come(loaded):
    executable = loaded(add())
    problems = []

    def work():
        try:
            buffers = executable.allocate()
            executable.run(buffers)
            a, b = buffers.read_inputs()
            np.testing.assert_array_equal(buffers.read()[0], a + b)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not problems


def test_the_device_tells_what_it_is():
    device = cuda()
    assert device.exist
    assert device.device_name
    assert float(device.compute_version) >= 7
    assert device.max_threads_per_block == 1024
    assert device.warp_size == 32
    assert device.multi_processor_count >= 1
    assert device.max_shared_memory_per_block == 48 * 1024


def test_dlpack_lends_device_memory_without_copying():
    ours = array(np.arange(6, dtype="float32"), cuda())
    again = from_dlpack(ours)
    assert (again.pointer, again.device, again.dtype) == (ours.pointer, cuda(), "float32")
    memory = weakref.ref(ours.block)
    del again, ours
    gc.collect()
    assert memory() is None


def test_numpy_gets_a_copy_on_the_host_or_says_that_it_cannot_read_the_device():
    ours = array(np.arange(6, dtype="float32"), cuda())
    with pytest.raises((RuntimeError, BufferError), match=r"(?i)unsupported device"):
        np.from_dlpack(ours)
    shared = np.asarray(from_dlpack(ours.__dlpack__(dl_device=(1, 0))).numpy())
    np.testing.assert_array_equal(shared, np.arange(6, dtype="float32"))
    with pytest.raises(BufferError, match=r"got \(1, 0\) and copy=False"):
        ours.__dlpack__(dl_device=(1, 0), copy=False)


def test_torch_shares_device_memory_both_ways():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    ours = array(np.arange(6, dtype="float32"), cuda())
    theirs = torch.from_dlpack(ours)
    assert theirs.data_ptr() == ours.pointer
    theirs[0] = 42
    torch.cuda.synchronize()
    assert ours.numpy()[0] == 42
    half = torch.full((3,), 2.0, dtype=torch.bfloat16, device="cuda")
    assert from_dlpack(half).pointer == half.data_ptr()
    assert from_dlpack(half).numpy().astype("float32").tolist() == [2, 2, 2]


# ---- compiling ---------------------------------------------------------------------------------


def test_nvcc_through_pycuda_gives_what_nvcc_gives(tmp_path, monkeypatch):
    through = compile_kernel(add(), DEVICE, out_dir=tmp_path, use_cache=False)
    monkeypatch.setattr("autotune.runtime.compile.pycuda_nvcc.has_pycuda_compiler", lambda: False)
    direct = compile_kernel(add(), DEVICE, out_dir=tmp_path, use_cache=False)
    assert through.code_hash == direct.code_hash
    assert through.resources == direct.resources


def test_nvcc_through_pycuda_refuses_times_out_and_cleans_up(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    wrong = add(source=ADD.replace("a[i]", "oops"))
    with pytest.raises(CompileError, match='identifier "oops" is undefined'):
        compile_kernel(wrong, DEVICE, out_dir=tmp_path)
    with pytest.raises(CompileTimeout, match="killed after"):
        compile_kernel(add(n=77), DEVICE, out_dir=tmp_path, timeout_s=0.05)
    assert compile_kernel(add(n=77), DEVICE, out_dir=tmp_path).artifact
    assert not list(scratch.iterdir())


def test_nvrtc_computes_the_same(loaded):
    try:
        cuda_compilers.find_nvrtc()
    except CompilerMissing:
        pytest.skip("no NVRTC")
    executable = loaded(add(), compiler="nvrtc")
    buffers = executable.allocate()
    executable.run(buffers)
    a, b = buffers.read_inputs()
    np.testing.assert_array_equal(buffers.read()[0], a + b)


# ---- running -----------------------------------------------------------------------------------


def test_a_kernel_computes_what_it_says(loaded):
    executable = loaded(add())
    buffers = executable.allocate()
    assert np.isnan(buffers.read()[0]).all()
    executable.run(buffers)
    a, b = buffers.read_inputs()
    np.testing.assert_array_equal(buffers.read()[0], a + b)


def test_several_calls_run_in_order_over_a_cleared_workspace(loaded):
    source = """
    extern "C" __global__ void part(const float *x, float *w) { atomicAdd(w, x[threadIdx.x]); }
    extern "C" __global__ void total(const float *w, float *y) { y[0] = 2 * w[0]; }
    """
    kernel = SourceKernel(
        "sum",
        source,
        [arg("x", (256,)), arg("y", (1,), role="out")],
        calls=[call("part", ["x", "w"], 1, 256), call("total", ["w", "y"])],
        workspace=[workspace("w", (1,), zero=True)],
    ).kernel("cuda")
    executable = loaded(kernel)
    buffers = executable.allocate([np.ones(256, "float32")])
    for _ in range(3):
        executable.run(buffers)
        assert buffers.read()[0][0] == 512


def test_in_place_arguments_are_restored(loaded):
    source = 'extern "C" __global__ void inc(int *x) { x[threadIdx.x]++; }'
    kernel = SourceKernel("inc", source, [arg("x", (32,), "int32", "inout")], block=32)
    executable = loaded(kernel.kernel("cuda"))
    buffers = executable.allocate()
    (before,) = buffers.read_inputs()
    executable.run(buffers)
    executable.run(buffers)
    np.testing.assert_array_equal(buffers.read()[0], before + 2)
    buffers.reset()
    np.testing.assert_array_equal(buffers.read()[0], before)


DYNAMIC = """
extern "C" __global__ void dynamic(const float *x, float *y) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < N; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < N; i += blockDim.x) y[i] = s[N - 1 - i];
}
"""


def test_more_than_48_kb_of_shared_memory_are_opted_in_to(loaded):
    n = DEVICE.limits.shared_bytes_optin // 4
    assert n * 4 > 48 * 1024
    kernel = SourceKernel(
        "dynamic",
        DYNAMIC,
        [arg("x", (n,)), arg("y", (n,), role="out")],
        {"N": n},
        block=256,
        shared_bytes=4 * n,
    )
    executable = loaded(kernel.kernel("cuda"))
    buffers = executable.allocate()
    executable.run(buffers)
    np.testing.assert_array_equal(buffers.read()[0], buffers.read_inputs()[0][::-1])


def test_a_block_with_too_many_registers_is_refused_by_name(tmp_path):
    source = """
    extern "C" __global__ void fat(const float *x, float *y) {
      float r[180];
      #pragma unroll
      for (int i = 0; i < 180; i++) r[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 180; i++) y[i * 1024 + threadIdx.x] = r[179 - i] * r[i];
    }
    """
    n = 180 * 1024
    kernel = SourceKernel("fat", source, [arg("x", (n,)), arg("y", (n,), role="out")], block=1024)
    kernel = kernel.kernel("cuda")
    output = compile_kernel(kernel, DEVICE, out_dir=tmp_path)
    with pytest.raises(DeviceError, match=r"fat: a block of 1024 threads does not fit: with \d+"):
        load(output.artifact, kernel, cuda())


def test_a_cubin_of_another_architecture_is_refused(tmp_path):
    other = "sm_75" if DEVICE.arch != "sm_75" else "sm_80"
    output = compile_kernel(add(), Target(f"cuda -arch={other}"), out_dir=tmp_path)
    with pytest.raises(DeviceError, match=r"cuda:0: .*"):
        load(output.artifact, add(), cuda())


def test_a_missing_entry_is_named_when_it_is_compiled(tmp_path):
    kernel = add(calls=[call("sub", ["a", "b", "c"], 1, 32)])
    with pytest.raises(CompileError, match="no kernel 'sub', it has add"):
        compile_kernel(kernel, DEVICE, out_dir=tmp_path)


FAULT = """
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from autotune.runtime import compile_kernel, cuda, load
from autotune.target import Target
import sys
source = 'extern "C" __global__ void bad(float *y) { ((float *)0x10)[threadIdx.x] = 1; y[0] = 1; }'
kernel = SourceKernel("bad", source, [arg("y", (1,), role="out")], block=32).kernel("cuda")
output = compile_kernel(kernel, Target("cuda"), out_dir=sys.argv[1])
executable = load(output.artifact, kernel, cuda())
buffers = executable.allocate()
for attempt in range(2):
    try:
        executable.run(buffers)
        print("no error")
    except DeviceError as error:
        print("DeviceError", "illegal" in str(error))
try:
    executable.close()
except DeviceError:
    pass
"""


def test_an_illegal_address_is_an_error_of_ours_and_stays_one(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", FAULT, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ended.stdout.split("\n")[:2] == ["DeviceError True"] * 2, ended.stderr


def test_buffers_of_another_device_are_refused(loaded):
    from autotune.runtime import Buffers

    with pytest.raises(KernelError, match="made for other arguments or for"):
        loaded(add()).run(Buffers(add().args, cpu()))
