"""The parameters of a device that a search needs, which records keep beside the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

from autotune.errors import TargetError
from autotune.target import Target
from autotune.utils.environment import parallel_threads

# No limit that anything checks: local memory of a CUDA block.
_UNLIMITED = 2**31 - 1


@dataclass(frozen=True, init=False)
class HardwareParams:
    """Limits and sizes of a device; what is not given is that of ``target``.

    Attributes:
        num_cores: cores of a CPU; -1 on a GPU.
        vector_unit_bytes: bytes that one vector instruction takes.
        cache_line_bytes: bytes of a line of the cache.
        max_shared_memory_per_block: bytes.
        max_local_memory_per_block: bytes.
        max_threads_per_block: threads.
        max_vthread_extent: most virtual threads of a block.
        warp_size: threads that run in lock-step.
    """

    num_cores: int
    vector_unit_bytes: int
    cache_line_bytes: int
    max_shared_memory_per_block: int
    max_local_memory_per_block: int
    max_threads_per_block: int
    max_vthread_extent: int
    warp_size: int
    # Whether somebody chose `max_shared_memory_per_block`: then searches keep it. No part of what
    # is compared or recorded, as records have all numbers.
    chooses_shared_memory: ClassVar[bool] = False

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: str | Target | None = None,
        target_host: str | Target | None = None,
    ) -> None:
        del target_host  # it decides nothing here
        given = (
            num_cores, vector_unit_bytes, cache_line_bytes, max_shared_memory_per_block,
            max_local_memory_per_block, max_threads_per_block, max_vthread_extent, warp_size,
        )  # fmt: skip
        chosen = max_shared_memory_per_block is not None
        object.__setattr__(self, "chooses_shared_memory", chosen)
        default = _defaults(Target("llvm" if target is None else target))
        for each, value, other in zip(fields(self), given, default, strict=True):
            object.__setattr__(
                self, each.name, _whole(each.name, other if value is None else value)
            )

    @staticmethod
    def from_row(row: Sequence[int]) -> HardwareParams:
        """Return the parameters that `to_row` wrote."""
        names = [each.name for each in fields(HardwareParams)]
        values: dict[str, Any] = dict(zip(names, row, strict=False))
        found = HardwareParams(**values)
        object.__setattr__(found, "chooses_shared_memory", False)
        return found

    def to_row(self) -> list[int]:
        """Return the numbers in the order that records have them in."""
        return list(astuple(self))

    def __str__(self) -> str:
        lines = [f"  {each.name}: {getattr(self, each.name)}\n" for each in fields(self)]
        return "HardwareParams:\n" + "".join(lines)


def _defaults(target: Target) -> tuple[int, ...]:
    kind = str(target.kind)
    if kind in ("cuda", "rocm", "nvptx"):
        return _of_cuda(target)
    if kind == "metal":
        return (-1, 16, 64, 32768, _UNLIMITED, 1024, 2, 8)
    if kind == "opencl" and target.device_name in ("mali", "adreno"):
        local = _UNLIMITED if target.device_name == "mali" else 32768
        return (-1, 16, 64, 32768, local, 256, 1, 1)
    if kind in ("opencl", "vulkan"):
        return (-1, 16, 64, 32768, _UNLIMITED, 256, 1, 1)
    if "cpu" in target.keys or kind == "hexagon":
        return (parallel_threads(), 64, 64, 0, 0, 0, 0, 0)
    raise TargetError(
        f"HardwareParams: nothing is known of devices of target {kind!r}; give all its numbers"
    )


def _of_cuda(target: Target) -> tuple[int, ...]:
    """Return the limits of the device, or of the architecture where there is none to ask."""
    warp = target.thread_warp_size
    limits = target.limits
    return (
        -1, 16, 64, limits.shared_bytes, _UNLIMITED, target.max_num_threads, warp // 4, warp,
    )  # fmt: skip


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TargetError(f"HardwareParams: {name} must be a whole number, got {value!r}")
    return value
