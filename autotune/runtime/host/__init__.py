"""Kernels on the CPU."""
