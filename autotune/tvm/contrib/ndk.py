"""TVM's `contrib.ndk`, whose function scripts pass to ``export_library``.

Code for Android is not made here: the targets are those of this host.
"""

from typing import TYPE_CHECKING

from autotune.tvm.contrib.cc import create_shared
from autotune.tvm.names import resolver

__all__ = ["create_shared"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
