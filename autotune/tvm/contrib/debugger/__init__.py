"""TVM's `contrib.debugger`: networks run kernel by kernel."""

from autotune.tvm.names import resolver

__getattr__ = resolver(__name__)
