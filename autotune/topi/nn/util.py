"""TVM's name of `autotune.topi.nn.utils` up to 0.7."""

from autotune.topi.nn.pad import get_pad_tuple

__all__ = ["get_pad_tuple"]
