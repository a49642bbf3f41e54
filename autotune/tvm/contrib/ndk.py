"""TVM's `contrib.ndk`, whose function scripts pass to ``export_library``.

Code for Android is not made here: the targets are those of this host.
"""

from autotune.tvm.contrib.cc import create_shared

__all__ = ["create_shared"]
