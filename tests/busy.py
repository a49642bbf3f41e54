"""A core that another program wants as well."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

linux = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="cores are Linux's to give"
)


@contextmanager
def shared_core():
    """Run this thread, and those it starts, on one core that another program wants as well."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    hog = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=-1
    )
    try:
        hog.stdout.readline()
        yield
    finally:
        hog.kill()
        hog.communicate()
        os.sched_setaffinity(0, cores)
