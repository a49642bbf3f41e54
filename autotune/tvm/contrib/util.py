"""TVM's name of `contrib.utils` up to 0.7."""

from autotune.tvm.contrib.utils import TempDirectory, tempdir

__all__ = ["TempDirectory", "tempdir"]
