"""TVM's `topi.x86`: schedules, and operators, for one kind of target."""

import sys
from typing import TYPE_CHECKING

from autotune.tvm.topi.schedules import PARTS, members

if not TYPE_CHECKING:
    globals().update(members("llvm"))
    for _part in PARTS:
        sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]
