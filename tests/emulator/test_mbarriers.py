"""mbarriers order accesses of warps in the emulator, and waits that never end are errors."""

import re

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

# A warp writes rows of 32 numbers to one buffer, and another one reverses them. Each lane arrives.
PIPELINE = """
using namespace emulator;
extern "C" __global__ void entry(const float* __restrict__ a, float* __restrict__ b) {
  __shared__ float s[32];
  __shared__ unsigned long long full[4], empty[1];
  int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) mbarrier_init(empty, 32);
  if (threadIdx.x < 4) mbarrier_init(full + threadIdx.x, 32);
  INITIALISED;
  for (int row = 0; row < 4; ++row) {
    if (threadIdx.x < 32) {
      EMPTY_WAIT;
      s[lane] = a[row * 32 + lane];
      mbarrier_arrive(full + row);
    } else {
      FULL_WAIT;
      EARLY;
      b[row * 32 + lane] = s[31 - lane];
      LATE;
    }
  }
}
"""
RIGHT = {
    "INITIALISED": "__syncthreads()",
    "EMPTY_WAIT": "mbarrier_wait(empty, row % 2 ^ 1)",
    "FULL_WAIT": "mbarrier_wait(full + row, 0)",
    "EARLY": "",
    "LATE": "mbarrier_arrive(empty)",
}


def run(order, **changes):
    text = "".join(f"#define {name} {value}\n" for name, value in {**RIGHT, **changes}.items())
    args = [arg("a", (128,)), arg("b", (128,), role="out")]
    source = SourceKernel("entry", text + PIPELINE, args, grid=1, block=64)
    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    run_emulated(source.kernel("cuda"), [a, b], (order,))
    return b.reshape(4, 32)


@pytest.mark.parametrize("order", [0, 3])
def test_warps_that_wait_for_each_others_arrivals_race_for_nothing(order):
    rows = np.arange(128, dtype="float32").reshape(4, 32)
    np.testing.assert_array_equal(run(order), rows[:, ::-1])


@pytest.mark.parametrize(
    "change",
    [
        {"EMPTY_WAIT": ""},
        {"FULL_WAIT": ""},
        {"EARLY": "mbarrier_arrive(empty)", "LATE": ""},
        {"LATE": "mbarrier_arrive(empty); if (row == 2) b[96 + lane] = s[lane]"},
    ],
    ids=["refilled-too-early", "read-too-early", "released-too-early", "read-once-more"],
)
def test_an_access_that_no_arrival_orders_is_a_race(change):
    with pytest.raises(DeviceError, match="race on shared memory"):
        run(0, **change)


@pytest.mark.parametrize("order", [0, 1, 3, 5])
def test_an_mbarrier_is_used_after_a_barrier_that_follows_its_initialisation(order):
    early = "race on shared memory.* wrote it at .* read it at|is not initialised"
    with pytest.raises(DeviceError, match=early):
        run(order, INITIALISED="")


def test_what_is_not_initialised_is_no_mbarrier():
    with pytest.raises(DeviceError, match="as an mbarrier, which is not initialised"):
        run(0, FULL_WAIT="mbarrier_wait(s, 0)")


# Warps by number: 0 writes, 1 reads; lines of the kernel are counted from that of `entry`.
SCRIPT = """
using namespace emulator;
extern "C" __global__ void entry(float* __restrict__ b) {
  __shared__ float s[32];
  __shared__ unsigned long long bar[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) mbarrier_init(bar, ARRIVALS), mbarrier_init(bar + 1, 2);
  __syncthreads();
  s[lane] = 0;
  __syncthreads();
  if (warp == 0) { FIRST; }
  if (warp == 1) { SECOND; }
  if (warp > 1) { OTHERS; }
  b[threadIdx.x] = 1;
}
"""


def script(arrivals, first, second, others="", order=0, warps=2):
    values = {"ARRIVALS": arrivals, "FIRST": first, "SECOND": second, "OTHERS": others}
    text = "".join(f"#define {name} {value}\n" for name, value in values.items())
    b = np.zeros(warps * 32, "float32")
    args = [arg("b", b.shape, role="out")]
    source = SourceKernel("entry", text + SCRIPT, args, grid=1, block=b.size)
    run_emulated(source.kernel("cuda"), [b], (order,))


PHASE_0 = "s[lane] = lane; mbarrier_arrive(bar)"
READ = "mbarrier_wait(bar, 0); b[threadIdx.x] = s[31 - lane]"


def test_what_is_released_before_a_phase_ends_is_seen_by_those_who_wait_for_it():
    script(32, PHASE_0, READ)
    script(1, "s[lane] = lane; __syncwarp(); if (lane == 0) mbarrier_arrive(bar)", READ)
    half = "if (lane < 16) mbarrier_arrive(bar); else { s[lane] = 2; mbarrier_arrive(bar); }"
    script(32, half, READ)


def test_what_is_released_in_the_next_phase_is_not_seen_by_those_who_wait_for_this_one():
    late = "__syncwarp(); s[lane] = 2 + lane; if (lane < 16) mbarrier_arrive(bar)"
    with pytest.raises(DeviceError, match="race on shared memory"):
        script(32, f"{PHASE_0}; {late}", READ)


def test_bytes_delivered_in_a_phase_are_seen_by_those_who_wait_for_it():
    copy = (
        "mbarrier_expect_tx(bar, 8); mbarrier_arrive(bar); s[5] = 1; mbarrier_complete_tx(bar, 8)"
    )
    script(1, f"if (lane == 0) {{ {copy}; }}", READ)


@pytest.mark.parametrize("order", [0, 1, 5])
def test_a_lane_may_wait_alone_while_the_others_of_its_warp_wait_for_it(order):
    alone = "if (lane == 0) mbarrier_wait(bar, 0)"
    script(32, PHASE_0, f"{alone}; __syncwarp(); b[threadIdx.x] = s[31 - lane]", order=order)
    text = deadlock(32, "", f"{alone}; __syncwarp()", order=order)
    assert text == (
        f"warp 0 exited; thread 32 waits {waits(0, '32 of 32 arrivals')}; "
        "threads 33 to 63 wait at __syncwarp(0xffffffff) in line 16"
    )


def test_an_mbarrier_may_be_initialised_again_any_number_of_times():
    again = "if (lane == 0) mbarrier_init(bar, 32); __syncwarp(); mbarrier_arrive(bar)"
    script(32, f"for (int n = 0; n < 600; ++n) {{ {again}; mbarrier_wait(bar, 0); }}", "")


def deadlock(*args, **options):
    with pytest.raises(DeviceError, match="deadlock in block") as error:
        script(*args, **options)
    return re.sub(r"at byte \d+", "at byte N", str(error.value).partition("(0,0,0): ")[2])


def waits(phase, lack):
    place = "the mbarrier in shared memory at byte N (initialised in entry.cu:11)"
    return f"in entry.cu:16 for phase {phase} (parity {phase % 2}) of {place}, which lacks {lack}"


@pytest.mark.parametrize("order", [0, 1, 5])
def test_too_few_arrivals_are_an_error_that_says_what_each_warp_waits_for(order):
    few = "if (lane < 30) mbarrier_arrive(bar)"
    text = deadlock(32, few, READ, "__syncthreads()", order, warps=4)
    assert text == (
        f"warp 0 exited; warp 1 waits {waits(0, '2 of 32 arrivals')}; "
        "warps 2 to 3 wait at __syncthreads in line 17"
    )


def test_a_wait_for_the_wrong_parity_is_an_error_that_says_which_phase_has_ended():
    text = deadlock(32, "mbarrier_arrive(bar)", "mbarrier_wait(bar, 0); mbarrier_wait(bar, 1)")
    last = "as nothing has arrived since phase 0, of the other parity, ended"
    assert text == f"warp 0 exited; warp 1 waits {waits(1, f'32 of 32 arrivals, {last}')}"


@pytest.mark.parametrize(
    ("bytes", "lack"),
    [
        ("mbarrier_expect_tx(bar, 8)", "0 of 1 arrivals and 8 bytes"),
        (
            "mbarrier_expect_tx(bar, 8); mbarrier_complete_tx(bar, 24)",
            "0 of 1 arrivals and had 16 bytes that were not expected",
        ),
    ],
    ids=["none-delivered", "too-many-delivered"],
)
def test_other_bytes_than_expected_are_an_error_that_counts_them(bytes, lack):
    text = deadlock(1, f"if (lane == 0) {{ {bytes}; mbarrier_arrive(bar); }}", READ)
    assert text == f"warp 0 exited; warp 1 waits {waits(0, lack)}"


def test_warps_that_wait_for_each_other_are_an_error_that_names_both():
    text = deadlock(32, "mbarrier_wait(bar + 1, 0); mbarrier_arrive(bar)", READ)
    wait = r"(warp \d) waits in entry.cu:(\d+) for phase 0 .*? lacks (.*?)(?:;|$)"
    both = re.findall(wait, text)
    assert both == [("warp 0", "15", "2 of 2 arrivals"), ("warp 1", "16", "32 of 32 arrivals")]


def test_an_arrival_that_the_phase_does_not_expect_is_an_error():
    twice = "mbarrier_expect_tx(bar, 8); mbarrier_arrive(bar); mbarrier_arrive(bar)"
    with pytest.raises(DeviceError, match="all of its 1 arrivals and waits for 8 bytes"):
        script(1, f"if (lane == 0) {{ {twice}; }}", READ)


def test_lanes_of_a_warp_that_wait_for_different_phases_are_an_error():
    with pytest.raises(DeviceError, match=r"different mbarriers or parities in entry.cu:15"):
        script(32, "mbarrier_wait(bar, lane % 2)", "")


OVER = """
using namespace emulator;
extern "C" __global__ void entry(const float* __restrict__ a, float* __restrict__ b) {
  __shared__ __align__(16) float s[64];
  void* const barrier = s + AT;
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
  if (threadIdx.x == 0) mbarrier_init(barrier, 64);
  __syncthreads();
  mbarrier_arrive(barrier);
  mbarrier_wait(barrier, 0);
  __syncthreads();
  BEFORE;
  __syncthreads();
  if (threadIdx.x < 32) s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = threadIdx.x < 32 ? s[threadIdx.x] : 0.0f;
}
"""
INVALIDATE = (
    'if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address) '
    ': "memory")'
)


def write_over(at, before="", text=OVER):
    text = f"#define AT {at}\n#define BEFORE {before}\n{text}"
    args = [arg("a", (64,)), arg("b", (64,), role="out")]
    source = SourceKernel("entry", text, args, grid=2, block=64)
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run_emulated(source.kernel("cuda"), [a, b], (0,))
    return b[:32]


def test_numbers_over_an_mbarrier_that_is_valid_are_an_error():
    """Of an H200, which wrote its state back over sums that other blocks had stored there."""
    with pytest.raises(DeviceError, match=r"mbarrier that is initialised in .* was written over"):
        write_over(30)


@pytest.mark.parametrize(("at", "before"), [(30, INVALIDATE), (32, "")])
def test_memory_of_an_mbarrier_that_is_invalidated_may_be_used_again(at, before):
    np.testing.assert_array_equal(write_over(at, before), np.arange(32, dtype="float32"))


def test_mbarriers_that_are_invalidated_make_room_for_others():
    again = """for (int n = 0; n < 600; ++n) {
      __syncthreads();
      BEFORE;
      __syncthreads();
      if (threadIdx.x == 0) mbarrier_init(barrier, 64);
      __syncthreads();
      mbarrier_arrive(barrier);
      mbarrier_wait(barrier, 0);
    }
    __syncthreads();
    BEFORE;"""
    result = write_over(30, INVALIDATE, OVER.replace("BEFORE;", again))
    np.testing.assert_array_equal(result, np.arange(32, dtype="float32"))


OBJECT = """
#include <cuda/barrier>
extern "C" __global__ void entry(const float* __restrict__ a, float* __restrict__ b) {
  typedef cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ __align__(16) float s[64];
  barrier* const own = reinterpret_cast<barrier*>(s + AT);
  if (threadIdx.x == 0) init(own, 64);
  __syncthreads();
  own->arrive_and_wait();
  __syncthreads();
  if (threadIdx.x == 0) own->~barrier();
  __syncthreads();
  if (threadIdx.x < 32) s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = threadIdx.x < 32 ? s[threadIdx.x] : 0.0f;
}
"""


def test_memory_of_a_barrier_whose_destructor_was_called_may_be_used_again():
    """On a device the destructor invalidates it; here it is trivial, and nothing sees it."""
    result = write_over(30, text=OBJECT)
    np.testing.assert_array_equal(result, np.arange(32, dtype="float32"))
