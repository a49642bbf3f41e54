"""TVM's `auto_scheduler.measure_record`; with ``python -m`` it reduces a log to its best."""

import sys

from autotune.auto_scheduler.measure_record import *
from autotune.auto_scheduler.measure_record import __all__, main

__all__ = [*__all__]

if __name__ == "__main__":
    sys.exit(main())
