"""Kernel Tuner's older place of the observers of NVML."""

from autotune.kernel_tuner.observers.nvml import (
    NVMLObserver,
    get_idle_power,
    get_nvml_gr_clocks,
    get_nvml_mem_clocks,
    get_nvml_pwr_limits,
)

__all__ = [
    "NVMLObserver",
    "get_idle_power",
    "get_nvml_gr_clocks",
    "get_nvml_mem_clocks",
    "get_nvml_pwr_limits",
]
