"""Whether compilers that some tests need are here."""

import pytest

from autotune.errors import CompilerMissing
from autotune.runtime.compile.cuda_compilers import find_nvrtc


def _has_nvrtc():
    try:
        return bool(find_nvrtc())
    except CompilerMissing:
        return False


needs_nvrtc = pytest.mark.skipif(not _has_nvrtc(), reason="no NVRTC")
