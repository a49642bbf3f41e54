"""TVM's `topi.cuda`: schedules, and operators, for one kind of target."""

import sys
from typing import TYPE_CHECKING

from autotune.tvm.topi import tensor_intrin
from autotune.tvm.topi.schedules import PARTS, members
from autotune.tvm.topi.tensor_intrin import (
    dp4a,
    intrin_wmma_gemm,
    intrin_wmma_load_matrix_A,
    intrin_wmma_load_matrix_W,
    intrin_wmma_store_matrix,
)

__all__ = [
    "dp4a",
    "intrin_wmma_gemm",
    "intrin_wmma_load_matrix_A",
    "intrin_wmma_load_matrix_W",
    "intrin_wmma_store_matrix",
    "tensor_intrin",
]

if not TYPE_CHECKING:
    globals().update(members("cuda"))
    for _part in PARTS:
        sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]
    sys.modules[f"{__name__}.tensor_intrin"] = tensor_intrin
