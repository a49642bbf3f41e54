"""Imports torch when an operator is made, and nowhere else."""

from __future__ import annotations

import importlib
from typing import Any

from autotune.errors import KernelError


def torch() -> Any:
    """Return PyTorch.

    Raises:
        KernelError: it cannot be imported.
    """
    try:
        found = importlib.import_module("torch")
    except ImportError as error:
        raise KernelError(
            f"autotune.torch: PyTorch cannot be imported ({error}); install it with "
            "`pip install 'autotune[torch]'`"
        ) from error
    if not hasattr(found, "library") or not hasattr(found.library, "register_autograd"):
        raise KernelError(
            f"autotune.torch: expected PyTorch 2.4 or newer, got {found.__version__}"
        )
    return found
