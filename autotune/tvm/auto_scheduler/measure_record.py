"""TVM's `auto_scheduler.measure_record`, with its command."""

import sys

from autotune.auto_scheduler.measure_record import *
from autotune.auto_scheduler.measure_record import __all__ as _ours
from autotune.auto_scheduler.measure_record import main

__all__ = [*_ours]

if __name__ == "__main__":
    sys.exit(main())
