"""What the hardware does by itself is reported if it is used before it is waited for."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from tests.emulator.ptx_kernels import KERNELS

PRODUCT = r"""
extern "C" __global__ void entry(const unsigned* a, unsigned* b) {
  extern __shared__ __align__(1024) unsigned s[];
  const int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) s[i] = 0x3c003c00;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float x[4] = {};
  const unsigned long long left = 16ull << 32 | 8ull << 16, right = left | 128;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < 2; ++i) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                 "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]) : "l"(left), "l"(right));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) b[t * 4 + i] = (unsigned)x[i];
}
"""
WAIT = '  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n'
REGISTERS = '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n'
STORE = "  for (int i = 0; i < 4; ++i) b[t * 4 + i] = (unsigned)x[i];\n"
UNREAD = (
    r"reads at entry.cu:{} a sum of the product in inline PTX at entry.cu:12, which it has not "
    "waited for"
)
COMMIT = '    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n'


def product(part="", instead=""):
    assert part in PRODUCT
    args = [arg("a", (1,), "uint32"), arg("b", (512,), "uint32", role="out")]
    text = PRODUCT.replace(part, instead) if part else PRODUCT
    source = SourceKernel("entry", text, args, grid=1, block=128, shared_bytes=2304)
    return source.kernel("cuda"), [np.zeros(1, "uint32"), np.zeros(512, "uint32")]


def test_sums_of_several_products_are_complete_once_the_last_is_waited_for():
    kernel, arrays = product()
    run_emulated(kernel, arrays, (0, 1))
    assert (arrays[1] == 32).all()


@pytest.mark.many_cases
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("part", "instead", "message"),
    [
        (WAIT, "", UNREAD.format(18)),
        (COMMIT, "", UNREAD.format(18)),
        (
            WAIT + STORE, "  b[t] = 1;\n",
            "exits before it has waited for the product in inline PTX at entry.cu:12",
        ),
        (REGISTERS, "", "issues a product in inline PTX at entry.cu:11 .* no wgmma.fence before"),
        (WAIT, f"  x[0] = 1;\n{WAIT}", "has written to sums of the product .* at entry.cu:12"),
        (
            WAIT, f"  s[t] = 0;\n{WAIT}",
            r"writes dynamic shared .* at entry.cu:18, while the product \(wgmma\) at entry.cu:12 "
            "that reads it has not been waited for",
        ),
    ],
    ids=["no-wait", "no-commit", "unread", "no-fence", "changed-sums", "changed-operand"],
)  # fmt: skip
def test_a_product_is_waited_for(part, instead, message, order):
    kernel, arrays = product(part, instead)
    with pytest.raises(DeviceError, match=message):
        run_emulated(kernel, arrays, (order,))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("change", ["    x[0] *= 2;\n", "    if (t == 70) x[3] = 0;\n"])
def test_a_product_adds_to_sums_that_were_changed_before_a_fence(change, order):
    kernel, arrays = product(COMMIT, COMMIT + WAIT + change + REGISTERS)
    run_emulated(kernel, arrays, (order,))
    for instead in (change, REGISTERS + change):
        kernel, arrays = product(COMMIT, COMMIT + WAIT + instead)
        with pytest.raises(
            DeviceError,
            match=r"issues a product in inline PTX at entry.cu:12 that adds to sums which it has "
            "changed, with no wgmma.fence between",
        ):
            run_emulated(kernel, arrays, (order,))


def test_a_product_that_does_not_add_needs_no_fence_after_a_change():
    kernel, arrays = product(COMMIT, COMMIT + WAIT + "    x[0] = 7;\n")
    over = replace(
        kernel, source=kernel.source.replace("%5, 1, 1, 1, 0, 0;", "%5, 0, 1, 1, 0, 0;")
    )
    run_emulated(over, arrays, (0,))


FENCE = '  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
BARRIER = "  __syncthreads();\n"
WRITE = "s[i] = 0x3c003c00;\n"
# A copy of a thread is one of the generic proxy, as its own writes are.
COPY = """asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::
    "r"((unsigned)__cvta_generic_to_shared(s + i)), "l"(a) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
"""


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("part", "instead"),
    [(WRITE, COPY), (FENCE + BARRIER, BARRIER + FENCE)],
    ids=["of-a-copy", "after-the-barrier"],
)
def test_a_product_reads_what_is_fenced_before_it(part, instead, order):
    kernel, arrays = product(part, instead)
    arrays[0][:] = 0x3C003C00
    run_emulated(kernel, arrays, (order,))
    assert (arrays[1] == 32).all()


@pytest.mark.many_cases
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("part", "instead", "issued"),
    [
        (FENCE, "", 11),
        (FENCE, "  if (t == 0)\n" + FENCE, 13),
        (BARRIER, BARRIER + "  s[t] = 0x3c003c00;\n" + BARRIER, 14),
        (WRITE + FENCE, COPY, 13),
    ],
    ids=["no-fence", "of-one-thread", "before-a-write", "of-a-copy"],
)
def test_a_product_of_what_is_not_fenced_is_reported(part, instead, issued, order):
    kernel, arrays = product(part, instead)
    with pytest.raises(
        DeviceError,
        match=rf"issues a product \(wgmma\) at entry.cu:{issued} that reads dynamic shared memory "
        r"at byte \d+, where thread .* wrote at entry.cu:\d+, with no fence.proxy.async between",
    ):
        run_emulated(kernel, arrays, (order,))


@pytest.mark.parametrize("order", [0, 1])
def test_a_store_of_what_is_not_fenced_is_reported(order):
    case = KERNELS["tensors"]
    kernel = case.source().kernel("cuda")
    assert FENCE in kernel.source
    text = kernel.source.replace(FENCE, "")
    line = 1 + text[: text.index("s[i] ^=")].count("\n")
    message = rf"a store \(TMA\) at .* reads .* wrote at entry.cu:{line}, with no fence"
    with pytest.raises(DeviceError, match=message):
        run_emulated(replace(kernel, source=text), case.arrays(), (order,))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("name", "part", "instead", "message"),
    [
        ("tensors", "  wait(&full, 0);\n", "", "reads .* while the load .* writes it has not"),
        ("bulk-copy", "  wait(&full, 0);\n", "", "reads .* while the load .* writes it has not"),
        (
            "tensors", "b, matrix, 16, 3, s);", "b, matrix, 16, 3, s), s[0] = 0;",
            r"writes .* while the store \(TMA\) .* that reads it has not been waited for",
        ),
    ],
    ids=["box", "bulk", "store"],
)  # fmt: skip
def test_a_copy_of_a_box_is_waited_for(name, part, instead, message, order):
    case = KERNELS[name]
    kernel = case.source().kernel("cuda")
    assert part in kernel.source
    wait = '  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(0) : "memory");\n'
    text = kernel.source.replace(part, instead).replace(wait, "")
    with pytest.raises(DeviceError, match=message):
        run_emulated(replace(kernel, source=text), case.arrays(), (order,))


@pytest.mark.parametrize("order", [0, 1])
def test_an_mbarrier_that_no_barrier_follows_has_the_lines_of_the_kernel(order):
    case = KERNELS["bulk-copy"]
    kernel = case.source().kernel("cuda")
    text = kernel.source.replace("  __syncthreads();\n  wait(", "\n  wait(")
    assert text != kernel.source
    line = 1 + kernel.source[: kernel.source.index("mbarrier.init")].count("\n")
    early = f"wrote it at entry.cu:{line} .* read it at entry.cu|at entry.cu:.* is not initialised"
    with pytest.raises(DeviceError, match=early):
        run_emulated(replace(kernel, source=text), case.arrays(), (order,))
