"""TVM's name of `autotune.contrib.utils` up to 0.7."""

from autotune.contrib.utils import TempDirectory, tempdir

__all__ = ["TempDirectory", "tempdir"]
