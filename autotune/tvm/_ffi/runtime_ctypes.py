"""TVM's `_ffi.runtime_ctypes`."""

from autotune.runtime.device import Device
from autotune.runtime.device import Device as TVMContext
from autotune.tvm.runtime.data_type import DataType

__all__ = ["DataType", "Device", "TVMContext"]
