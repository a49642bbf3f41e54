"""TVM's `runtime`."""

from autotune.network import load_param_dict, save_param_dict
from autotune.runtime import *
from autotune.runtime import __all__ as _ours
from autotune.tvm.runtime.data_type import DataType
from autotune.tvm.runtime.module import enabled, load_module

# What TVM's own types of texts and lists are here.
String = str

__all__ = [
    *_ours,
    "DataType",
    "String",
    "enabled",
    "load_module",
    "load_param_dict",
    "save_param_dict",
]
