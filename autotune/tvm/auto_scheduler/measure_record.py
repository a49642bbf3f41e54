"""TVM's `auto_scheduler.measure_record`, with its command."""

import sys
from typing import TYPE_CHECKING

from autotune.auto_scheduler.measure_record import *
from autotune.auto_scheduler.measure_record import __all__ as _ours
from autotune.auto_scheduler.measure_record import main
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)

if __name__ == "__main__":
    sys.exit(main())
