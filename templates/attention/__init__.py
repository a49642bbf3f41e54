"""Attention for CUDA, by mma.sync, by wgmma on Hopper, and split-KV for decoding; for a CPU."""
