"""Parameters of a CPU for analytical cost models that `HardwareParams` does not have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Of the flags by which Linux names instruction sets -> bytes of their vectors, and the registers
# that sums and operands may fill: of 32, GCC 12 begins to spill where all but three are full.
_VECTORS = {"avx512f": (64, 28), "avx": (32, 16), "asimd": (16, 32)}
# The same for CPUs by the names that GCC and Clang have for them, as a target's ``-mcpu`` does.
_NAMES = (
    (64, 28, r"""x86-64-v4 | kn[lm] | znver[45] | (skylake-avx512 | cascadelake | cooperlake
        | cannonlake | icelake | rocketlake | tigerlake | sapphirerapids | emeraldrapids
        | graniterapids | diamondrapids) (-client | -server | -d)?"""),
    (32, 16, r"""x86-64-v3 | core-avx2 | core-avx-i | corei7-avx | sandybridge | ivybridge
        | haswell | broadwell | skylake | alderlake | raptorlake | meteorlake | arrowlake (-s)?
        | lunarlake | pantherlake | gracemont | sierraforest | grandridge | clearwaterforest
        | bdver[1-4] | btver2 | znver[1-3]"""),
    (16, 16, r"""x86-64 (-v2)? | nocona | core2 | penryn | corei7 | nehalem | westmere | bonnell
        | atom | silvermont | goldmont (-plus)? | tremont | (k8 | opteron | athlon64) (-sse3)?
        | amdfam10 | barcelona | btver1"""),
    (16, 32, r"""cortex-(a[3-7]\d | a[57]\d\d | x\d) \w* | neoverse-.* | apple-.* | thunderx.*
        | ampere1.* | tsv110 | kryo | falkor | saphira | exynos-m\d"""),
)  # fmt: skip


@dataclass(frozen=True)
class CpuParameters:
    """One core.

    Attributes:
        vector_bytes: of the vectors that compilers use on it.
        registers: such vectors that code can name and compilers fill.
        frequency: cycles per second.
        l1_bytes: of the first cache.
        l2_bytes: of the second cache.
        l1_rate: bytes that it loads a cycle from the second cache to the first.
        l2_rate: the same from what is behind the second.
        latency: cycles until the sum of a multiply-add can be added to.
    """

    vector_bytes: int = 32
    registers: int = 16
    frequency: float = 3e9
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l1_rate: float = 32.0
    l2_rate: float = 8.0
    latency: float = 4.0

    @staticmethod
    def of(mcpu: str) -> CpuParameters:
        """Return the parameters of the CPU that a target names.

        Args:
            mcpu: its name; the CPU of this machine is meant by an empty or unknown one.
        """
        for vector_bytes, registers, names in _NAMES:
            if re.fullmatch(names, mcpu, re.VERBOSE):
                return CpuParameters(vector_bytes, registers)
        return CpuParameters.here()

    @staticmethod
    @cache
    def here() -> CpuParameters:
        """Return the parameters of this machine; of an unknown one, those of most x86 CPUs."""
        try:
            words = set(_CPUINFO.read_text("utf-8", "replace").split())
        except OSError:
            return CpuParameters()
        for flag, (vector_bytes, registers) in _VECTORS.items():
            if flag in words:
                return CpuParameters(vector_bytes, registers)
        return CpuParameters()
