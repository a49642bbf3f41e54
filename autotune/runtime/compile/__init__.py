"""Compilation of kernels to machine code, and the resources that it declares."""
