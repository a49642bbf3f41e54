"""Attention for CUDA: by warps, by warpgroups on Hopper, and for few queries."""
