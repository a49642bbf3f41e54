"""TVM's name for the place of `get_pad_tuple`."""

from autotune.topi.nn.pad import get_pad_tuple

__all__ = ["get_pad_tuple"]
