"""``python -m autotune.tvm -m tvm.driver.tvmc`` is TVM's command ``tvmc``."""

import sys

from autotune.tvm.driver.tvmc.main import main

if __name__ == "__main__":  # processes that compile import this module, too
    sys.exit(main())
