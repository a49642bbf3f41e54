"""Kernel Tuner's observers: that of NVML."""
