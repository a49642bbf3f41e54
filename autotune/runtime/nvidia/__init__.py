"""Kernels on NVIDIA devices."""
