"""Parameters of a GPU for analytical cost models that `HardwareParams` does not have."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.target import Target

# Blocks for which the shared memory of a multiprocessor has to suffice.
BLOCKS = 2
# Where no device is available: those of a large datacentre GPU.
_SMS = 132
# Warps that a multiprocessor holds, by compute capability, where they are fewer than 64.
_FEWER_WARPS = {"75": 32, "86": 48, "87": 48, "89": 48, "110": 48, "120": 48, "121": 48}


@dataclass(frozen=True)
class GpuParameters:
    """One GPU.

    Attributes:
        sms: multiprocessors.
        clock: cycles per second.
        schedulers: warps of a multiprocessor that issue in one cycle.
        warps: warps that a multiprocessor holds in estimates, which were fitted to an H200.
        most_warps: warps that one of the device's holds: a compiler ignores a hint of more.
        blocks: blocks that it holds.
        registers: 32-bit registers that it has.
        shared_bytes: shared memory that it has.
        block_shared_bytes: what one block may have of it.
        large_shared_bytes: the same of a kernel of very many multiply-adds.
        block_threads: threads that one block may have.
        block_vthreads: virtual threads that one block may have.
        l2_bytes_per_cycle: what one multiprocessor gets from the second-level cache.
        latency: cycles from issuing the copies of a K tile until all threads can read it.
        launch_s: seconds that one more kernel takes.
        memory_bytes_per_s: of global memory.
    """

    sms: int = _SMS
    clock: float = 1.7e9
    schedulers: int = 4
    warps: int = 64
    most_warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 * 1024
    block_shared_bytes: int = 48 * 1024
    large_shared_bytes: int = 48 * 1024
    block_threads: int = 1024
    block_vthreads: int = 8
    l2_bytes_per_cycle: float = 40.0
    latency: float = 900.0
    launch_s: float = 1.5e-6
    memory_bytes_per_s: float = 2.5e12

    @staticmethod
    def of(target: Target, params: HardwareParams) -> GpuParameters:
        """Return the parameters of the device of a task.

        A limit of shared memory that a user chose is kept. That of `HardwareParams` by default is
        what a kernel has without asking, as TVM counts: a block of a large one may ask for so much
        that a multiprocessor holds two.
        """
        limits, given = target.limits, params.max_shared_memory_per_block
        optin = max(limits.shared_bytes_optin, given)
        half = (optin + 1024) // BLOCKS - 1024
        chosen = params.chooses_shared_memory or given != limits.shared_bytes
        capability = target.arch.partition("_")[2].rstrip("af")
        most = _FEWER_WARPS.get(capability, GpuParameters.most_warps)
        return GpuParameters(
            sms=limits.sm_count if limits.sm_count > 1 else _SMS,
            most_warps=most,
            registers=limits.registers,
            shared_bytes=optin + 1024,
            block_shared_bytes=given,
            large_shared_bytes=given if chosen else max(given, half),
            block_threads=params.max_threads_per_block,
            block_vthreads=max(params.max_vthread_extent, 1),
        )
