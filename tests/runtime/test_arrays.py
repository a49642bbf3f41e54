import contextlib
import gc
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import autotune.runtime as runtime
from autotune.errors import CompileError, DeviceError, KernelError
from autotune.kernel import arg
from autotune.kernel.kernel import ITEM_BYTES
from autotune.runtime import array, cpu, device, empty, from_dlpack, random_inputs
from autotune.runtime.arrays import dlpack, lender
from autotune.runtime.arrays.array import NDArray, dtype_name, numpy_dtype
from autotune.runtime.device import Device
from autotune.runtime.nvidia import driver as cuda_driver
from autotune.target import Target
from autotune.tvm import nd


def values(dtype, shape=(2, 3)):
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_values_survive_the_way_there_and_back(dtype):
    expected = values(dtype)
    ours = array(expected)
    assert (ours.shape, ours.dtype, ours.ndim, ours.size) == ((2, 3), dtype, 2, 6)
    assert ours.nbytes == expected.nbytes
    np.testing.assert_array_equal(ours.numpy(), expected)
    np.testing.assert_array_equal(ours.asnumpy(), expected)


def test_a_copy_to_a_cuda_device_returns_when_the_values_have_arrived(monkeypatch):
    """Of pageable memory the driver returns earlier, and some streams do not wait for it."""
    done = []
    pycuda = SimpleNamespace(
        Context=SimpleNamespace(synchronize=lambda: done.append("waited")),
        memcpy_htod=lambda pointer, view: done.append(("copied", pointer, bytes(view))),
    )
    monkeypatch.setattr(cuda_driver, "driver", pycuda)
    monkeypatch.setattr(cuda_driver, "activated", lambda index: contextlib.nullcontext())
    source = np.arange(4, dtype="uint8")
    cuda_driver.CudaMemory().from_host(runtime.cuda(), 256, source.ctypes.data, source.nbytes)
    assert done == ["waited", ("copied", 256, source.tobytes()), "waited"]


def test_an_array_is_a_copy_of_what_it_was_made_from():
    source = values("float32")
    ours = array(source)
    source[:] = 0
    ours.numpy()[:] = 0
    assert ours.numpy().sum() == 21


def test_arrays_are_made_from_lists_and_by_the_old_name_of_the_device():
    assert array([1.0, 2.0]).dtype == "float64"
    assert array(np.zeros(2, "int8"), ctx=cpu(0)).ctx == cpu()
    assert nd.empty((4,), "float16", device=cpu()).shape == (4,)
    assert empty(5).shape == (5,)
    assert empty(()).numpy().shape == ()


def test_host_memory_is_aligned_for_vectors():
    assert all(empty((n,), "int8").pointer % 64 == 0 for n in (1, 3, 100, 4097))


def test_copies_check_the_shape_and_convert_the_dtype():
    target = empty((2, 3))
    assert target.copyfrom(values("int64")) is target
    assert target.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    other = target.copyto(empty((2, 3), "float64"))
    np.testing.assert_array_equal(other.numpy(), target.numpy())
    assert target.copyto(cpu()).pointer != target.pointer
    with pytest.raises(KernelError, match=r"must have shape \(2, 3\), got \(3, 2\)"):
        target.copyfrom(np.zeros((3, 2)))


def test_an_array_is_overwritten_as_a_whole_by_assignment():
    target = empty((2, 3), "int64")
    target[:] = values("float32")
    np.testing.assert_array_equal(target.numpy(), values("int64"))
    with pytest.raises(KernelError, match=r"index must be \[:\], the whole array, got 0"):
        target[0] = 1
    with pytest.raises(KernelError, match=r"index must be \[:\], the whole array, got array"):
        target[np.array([0, 1])] = 1


def test_copyfrom_takes_arrays_that_are_not_contiguous():
    source = values("float32", (4, 6))[::2, ::-1]
    np.testing.assert_array_equal(array(source).numpy(), source)


def test_complex_numbers_are_told_how_they_are_passed():
    with pytest.raises(KernelError, match=r"pass x\.view\('float64'\)\.reshape\(\*x\.shape, 2\)"):
        dtype_name(np.zeros(3, np.complex128).dtype)


def test_numbers_in_another_order_of_bytes_are_told_how_to_change_it():
    swapped = np.arange(3.0).astype(np.dtype("float64").newbyteorder("S"))
    with pytest.raises(KernelError, match=r"x\.astype\(x\.dtype\.newbyteorder\('='\)\)"):
        dtype_name(swapped.dtype)


def test_an_unknown_dtype_is_named():
    with pytest.raises(KernelError, match="complex64"):
        array(np.zeros(2, "complex64"))
    with pytest.raises(KernelError, match="float8"):
        empty((2,), "float8")


def test_numpy_shares_our_memory_by_dlpack():
    ours = array(values("float32"))
    theirs = np.from_dlpack(ours)  # which numpy 1 makes read-only
    ours.copyfrom(2 * values("float32"))
    np.testing.assert_array_equal(theirs, 2 * values("float32"))
    assert theirs.ctypes.data == ours.pointer


def test_a_capsule_lends_our_memory():
    torch = pytest.importorskip("torch")
    ours = array(values("float32"))
    theirs = torch.utils.dlpack.from_dlpack(ours.to_dlpack())
    assert theirs.data_ptr() == ours.pointer


def test_we_share_numpys_memory_by_dlpack():
    theirs = values("int32")
    ours = from_dlpack(theirs)
    theirs[1, 2] = 42
    assert ours.numpy()[1, 2] == 42
    assert (ours.shape, ours.dtype, ours.device) == ((2, 3), "int32", cpu())


def test_lent_memory_lives_as_long_as_it_is_used():
    ours = array(values("float32", (1000, 100)))
    theirs, memory = np.from_dlpack(ours), weakref.ref(ours.block)
    del ours
    gc.collect()
    assert theirs.sum() == pytest.approx(100_000 * 100_001 / 2, rel=1e-3)
    assert memory() is not None
    del theirs
    assert memory() is None


def test_borrowed_memory_is_given_back():
    ours = array(values("float64"))
    borrowed, memory = from_dlpack(ours), weakref.ref(ours.block)
    assert borrowed.pointer == ours.pointer
    del ours
    gc.collect()
    assert memory() is not None
    del borrowed
    assert memory() is None


@pytest.fixture(params=["c", "python"])
def functions(request, monkeypatch):
    """Lend with the functions in C, and with those where there is no compiler."""
    made = lender.lender() if request.param == "c" else lender.lender_in_python()
    monkeypatch.setattr(dlpack, "lender", lambda: made)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_nobody_takes_is_given_back(functions, version):
    ours = array(values("float64"))
    memory = weakref.ref(ours.block)
    capsule = ours.__dlpack__(max_version=version)
    del ours
    assert memory() is not None
    del capsule
    assert memory() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_borrower_gives_back_through_both_structures(functions, version):
    torch = pytest.importorskip("torch")
    ours = array(values("float64"))
    theirs = torch.from_dlpack(ours.__dlpack__(max_version=version))
    memory = weakref.ref(ours.block)
    del ours
    assert theirs.sum() == 21
    del theirs
    assert memory() is None


class OnGpu(NDArray):
    """An array that says that it is on a GPU."""

    def __dlpack__(self, **asked):
        told = asked.get("max_version") is not None
        where = Device("cuda", 0)
        return dlpack.export(self, self.pointer, self.shape, self.dtype, where, told)

    def __dlpack_device__(self):
        return 2, 0


def test_numpys_error_for_an_array_on_a_gpu_is_its_own():
    ours = array(values("float32"))
    memory = weakref.ref(ours.block)
    with pytest.raises((RuntimeError, BufferError), match=r"(?i)unsupported device"):
        np.from_dlpack(OnGpu(ours.device, ours.shape, ours.dtype, ours.block))
    del ours
    gc.collect()
    assert memory() is None


def test_an_error_that_is_pending_stays_while_memory_is_given_back():
    torch = pytest.importorskip("torch")
    ours = array(values("float32"))
    with pytest.raises(TypeError, match="relu"):
        torch.relu(torch.from_dlpack(ours), "one too many")
    memory = weakref.ref(ours.block)
    del ours
    gc.collect()
    assert memory() is None


def test_without_a_compiler_memory_is_lent_too(monkeypatch):
    def refuse(*_, **__):
        raise CompileError("no compiler")

    monkeypatch.setattr(lender, "compile_kernel", refuse)
    lender.lender.cache_clear()
    try:
        assert np.from_dlpack(array(values("float32"))).sum() == 21
    finally:
        lender.lender.cache_clear()


@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "float16", "uint8"])
def test_dlpack_carries_dtypes_that_numpy_does_not(dtype):
    ours = array(values(dtype))
    again = from_dlpack(ours)
    assert again.dtype == dtype
    assert again.pointer == ours.pointer


def test_dlpack_refuses_what_is_not_dense():
    with pytest.raises(KernelError, match="not dense row-major; pass a contiguous copy"):
        from_dlpack(values("float32", (4, 6))[:, ::2])
    with pytest.raises(KernelError, match="expected an array with __dlpack__, got list"):
        from_dlpack([1, 2])
    read_only = values("float32")
    read_only.flags.writeable = False
    with pytest.raises(KernelError, match="does not lend its memory"):
        from_dlpack(read_only)


def test_a_capsule_is_taken_once():
    capsule = array(values("float32")).__dlpack__()
    kept = from_dlpack(capsule)
    with pytest.raises(KernelError, match="used before"):
        from_dlpack(capsule)
    assert kept.numpy().sum() == 21


def test_dlpack_copies_where_the_borrower_asks_for_it():
    ours = array(values("float32"))
    assert from_dlpack(ours.__dlpack__(copy=False, dl_device=(1, 0))).pointer == ours.pointer
    copy = from_dlpack(ours.__dlpack__(copy=True))
    assert copy.pointer != ours.pointer
    np.testing.assert_array_equal(copy.numpy(), ours.numpy())
    with pytest.raises(BufferError, match=r"expected dl_device \(1, 0\) .* got \(2, 0\)"):
        ours.__dlpack__(dl_device=(2, 0))


def test_torch_shares_memory_both_ways():
    torch = pytest.importorskip("torch")
    ours = array(values("float32"))
    theirs = torch.from_dlpack(ours)
    theirs[0, 0] = 42
    assert ours.numpy()[0, 0] == 42
    half = torch.ones(3, dtype=torch.bfloat16)
    assert from_dlpack(half).numpy().astype("float32").tolist() == [1, 1, 1]


def test_numpy_reads_our_arrays():
    ours = array(values("float32"))
    np.testing.assert_array_equal(np.asarray(ours), values("float32"))
    assert np.asarray(ours, dtype="float64").dtype == np.float64
    assert len(ours) == 2
    assert "shape=(2, 3), dtype='float32', device=cpu:0" in repr(ours)
    with pytest.raises(ValueError, match="copied"):
        ours.__array__(copy=False)  # as np.asarray(ours, copy=False) does from numpy 2 on


def test_devices_are_named_as_in_tvm():
    assert device("cpu", 0) == device("llvm") == device(Target("c")) == cpu(0)
    assert device("cuda:1") == device("cuda", 1) == runtime.cuda(1) == runtime.gpu(1)
    assert str(runtime.cuda(1)) == "cuda:1"
    assert cpu().exist
    assert not device("cuda", 1000).exist
    assert (cpu().device_type, runtime.cuda(3).device_type, runtime.cuda(3).device_id) == (1, 2, 3)
    assert cpu().multi_processor_count >= 1
    assert cpu().device_name
    with pytest.raises(DeviceError, match="'tpu': expected one of c, cl, cpu, cuda"):
        device("tpu")


@pytest.mark.parametrize("kind", ["opencl", "cl", "vulkan", "metal", "rocm", "ext_dev"])
def test_a_kind_of_device_that_tvm_knows_does_not_exist(kind):
    for found in (device(kind), device(kind, 1), device(f"{kind}:1")):
        assert found.exist is False
        assert found.device_type > 2
        with pytest.raises(DeviceError, match="there is no such device"):
            empty((2,), "float32", found)
        with pytest.raises(DeviceError, match="there is no such device"):
            _ = found.device_name


def test_the_device_of_an_emulated_target_is_the_cpu():
    assert device(Target("cuda -emulate")) == cpu()
    assert device("cuda -emulate=1") == cpu()


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(DeviceError, match="cuda:1000: there is no such device"):
        empty((2,), "float32", runtime.cuda(1000))
    with pytest.raises(DeviceError, match="cuda:1000"):
        _ = runtime.cuda(1000).max_threads_per_block


def test_bits_of_bfloat16_numbers_are_copied_as_they_are():
    numbers = np.array([1.0, -2.0, 3.0, 0.5], ml_dtypes.bfloat16)
    bits = numbers.view("uint16")
    made = empty((4,), "bfloat16").copyfrom(bits)
    np.testing.assert_array_equal(made.numpy(), numbers)
    np.testing.assert_array_equal(made.copyfrom(bits[::-1]).numpy(), numbers[::-1])
    np.testing.assert_array_equal(made.copyfrom(array(bits)).numpy(), numbers)
    np.testing.assert_array_equal(made.copyfrom(np.array([1, 2, 3, 4])).numpy(), [1, 2, 3, 4])


@pytest.mark.parametrize("short", ["float", "int", "uint"])
def test_a_dtype_without_a_width_has_32_bits(short):
    assert empty((2,), short).dtype == f"{short}32"


def test_bfloat16_keeps_its_name():
    assert array(np.ones(2, ml_dtypes.bfloat16)).dtype == "bfloat16"
    assert array(np.ones(2, "float32")).copyto(empty((2,), "bfloat16")).dtype == "bfloat16"


@pytest.mark.parametrize(("first", "count"), [(0, 8), (3, 5), (7, 1)])
def test_dlpack_memory_begins_at_its_offset(first, count):
    ours = array(np.arange(8, dtype="float32"))
    capsule = ours.__dlpack__()
    tensor = dlpack._DLManagedTensor.from_address(
        dlpack._pointer_of(capsule, b"dltensor")
    ).dl_tensor
    tensor.byte_offset = 4 * first
    tensor.shape[0] = count
    theirs = from_dlpack(capsule)
    np.testing.assert_array_equal(theirs.numpy(), np.arange(first, first + count))
    assert theirs.pointer == ours.pointer + 4 * first


@pytest.mark.parametrize("elements", [2**50, 2**61, 2**63, 10**40])
def test_arrays_that_no_memory_holds_are_refused_in_our_words(elements):
    one = arg("x", (elements,))
    with pytest.raises(DeviceError, match=rf"no memory for the inputs 'x' of {one.bytes} bytes"):
        random_inputs([one])
    with pytest.raises(DeviceError, match=r"no memory for .* bytes"):
        empty((elements,), "float32")
