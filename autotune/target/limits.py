"""The launch limits of a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one block, and of one device.

    Attributes:
        threads_per_block: most threads of one block.
        shared_bytes: shared memory of one block without opting in.
        shared_bytes_optin: shared memory of one block when the launch opts in (dynamic only).
        registers: 32-bit registers of one block.
        block_dim: most threads per block in x, y, z.
        grid_dim: most blocks in x, y, z.
        warp_size: threads that run in lock-step.
        sm_count: multiprocessors, or cores of a CPU.
    """

    threads_per_block: int = 1024
    shared_bytes: int = 49152
    shared_bytes_optin: int = 49152
    registers: int = 65536
    block_dim: tuple[int, int, int] = (1024, 1024, 64)
    grid_dim: tuple[int, int, int] = (2147483647, 65535, 65535)
    warp_size: int = 32
    sm_count: int = 1


# Shared memory a block can opt in to, by compute capability (CUDA programming guide, table
# "Technical specifications per compute capability"), in KiB.
_SHARED_OPTIN_KIB = {
    70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227,
    110: 227, 120: 99, 121: 99,
}  # fmt: skip


def limits_of_arch(arch: str) -> Limits:
    """Return the limits of a CUDA architecture such as ``sm_90`` where no device can be asked."""
    digits = "".join(c for c in arch.partition("_")[2] if c.isdigit())
    optin = _SHARED_OPTIN_KIB.get(int(digits or 0), 48) * 1024
    return Limits(shared_bytes_optin=optin)
