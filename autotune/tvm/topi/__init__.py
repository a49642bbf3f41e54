"""TVM's `topi`: operators as tensor expressions."""

from typing import TYPE_CHECKING

from autotune.topi import *
from autotune.topi import __all__ as _ours
from autotune.topi.utils import equal_const_int, get_const_float, get_const_int, get_const_tuple
from autotune.tvm.topi.arrangements import *
from autotune.tvm.topi.arrangements import __all__ as _arrangements
from autotune.tvm.topi.indexing import *
from autotune.tvm.topi.indexing import __all__ as _indexing
from autotune.tvm.topi.more import *
from autotune.tvm.topi.more import __all__ as _more
from autotune.tvm.topi.sorting import *
from autotune.tvm.topi.sorting import __all__ as _sorting

__all__ = [
    *_arrangements,
    *_indexing,
    *_more,
    *_sorting,
    *_ours,
    "cuda",
    "equal_const_int",
    "generic",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "image",
    "nn",
    "tag",
    "testing",
    "utils",
    "x86",
]

if not TYPE_CHECKING:  # TVM's in place of ours, which have fewer names
    import autotune.tvm.topi.cuda as cuda
    import autotune.tvm.topi.generic as generic
    import autotune.tvm.topi.image as image
    import autotune.tvm.topi.nn as nn
    import autotune.tvm.topi.tag as tag
    import autotune.tvm.topi.testing as testing
    import autotune.tvm.topi.utils as utils
    import autotune.tvm.topi.x86 as x86
    from autotune.tvm.topi.more import cast as cast
