"""`benchmarks.tuning.start` replaces functions of the package by timed ones."""

import subprocess
import sys
from pathlib import Path


def test_all_functions_that_the_benchmark_times_exist():
    # In a process of its own, as they stay replaced.
    code = "from benchmarks.tuning.start import watched; watched()"
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
