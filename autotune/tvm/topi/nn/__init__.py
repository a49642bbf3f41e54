"""TVM's `topi.nn`, and its modules for each kind of operator."""

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from autotune.te.tensor import Tensor
from autotune.topi.nn import *
from autotune.topi.nn import __all__ as _ours
from autotune.topi.nn import conv2d as _conv2d
from autotune.topi.nn import pool2d
from autotune.topi.transform import strided_slice
from autotune.tvm.names import explain_names
from autotune.tvm.topi.nn.blocked_conv2d import conv2d_NCHWc, conv2d_NCHWc_int8
from autotune.tvm.topi.nn.normalisation import *
from autotune.tvm.topi.nn.normalisation import __all__ as _norms
from autotune.tvm.topi.nn.rearranging import *
from autotune.tvm.topi.nn.rearranging import __all__ as _rearranged

__all__ = [
    *_ours,
    *_norms,
    *_rearranged,
    "conv2d_NCHWc",
    "conv2d_NCHWc_int8",
    "pool",
    "strided_slice",
]  # and conv2d with the arguments of older versions

# TVM's modules of operators, and where these are here.
_MODULES = {
    "batch_matmul": "dense",
    "conv1d": "conv1d",
    "conv2d": "conv2d",
    "conv2d_transpose": "conv2d_transpose",
    "conv3d": "conv3d",
    "dense": "dense",
    "depthwise_conv2d": "depthwise",
    "dilate": "dilate",
    "elemwise": "elementwise",
    "flatten": "elementwise",
    "mapping": "elementwise",
    "pad": "pad",
    "softmax": "softmax",
}


def pool(
    data: Tensor,
    kernel: Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Do what `pool2d` does, with the arguments that TVM took up to 0.7."""
    return pool2d(
        data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def conv2d(  # type: ignore[no-redef]
    data: Tensor,
    kernel: Tensor,
    strides: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | str | Sequence[int] = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
    layout: str | None = None,
) -> Tensor:
    """Do what `autotune.topi.nn.conv2d` does; ``layout`` is the name of its layout up to 0.6.

    In TVM 0.4 the layout followed the padding, without a dilation.
    """
    if isinstance(dilation, str):
        layout, dilation = dilation, 1
    return _conv2d(
        data, kernel, strides, padding, dilation, layout or data_layout, kernel_layout, out_dtype,
        groups,
    )  # fmt: skip


class _Operators(ModuleType):
    """A package in which ``pad`` stays the operator after ``from tvm.topi.nn.pad import pad``.

    An import of a module makes it an attribute of its package.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)


def _named(name: str, home: str) -> ModuleType:
    """Return a module of ours by TVM's name, which explains what it does not have."""
    module = ModuleType(name)
    vars(module).update(vars(import_module(f"autotune.topi.nn.{home}")), __name__=name)
    explain_names(module)
    return module


sys.modules[__name__].__class__ = _Operators
for _theirs, _here in _MODULES.items():
    sys.modules[f"{__name__}.{_theirs}"] = _named(f"{__name__}.{_theirs}", _here)
for _theirs in ("depth_to_space", "space_to_depth", "upsampling"):
    sys.modules[f"{__name__}.{_theirs}"] = import_module(f"{__name__}.rearranging")
for _theirs in ("batch_norm", "group_norm", "instance_norm", "local_response_norm"):
    sys.modules[f"{__name__}.{_theirs}"] = import_module(f"{__name__}.normalisation")
