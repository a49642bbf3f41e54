"""What is sent to the processes that compile: frozen data, text and numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotune.kernel.kernel import Kernel


@dataclass(frozen=True)
class BuildJob:
    """Compile this kernel for this target into this folder."""

    kernel: Kernel
    target: str
    timeout_s: float
    compiler: Literal["nvcc", "nvrtc"]
    out_dir: str
    use_cache: bool = True
