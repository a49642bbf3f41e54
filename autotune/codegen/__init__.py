"""CUDA and C text from a loop nest."""
