"""Imports torch when a part of autotune needs it, and nowhere else."""

from __future__ import annotations

import importlib
from typing import Any

from autotune.errors import AutotuneError, KernelError


def torch(owner: str = "autotune.torch", error: type[AutotuneError] = KernelError) -> Any:
    """Return PyTorch.

    Args:
        owner: what needs it, for the message.
        error: what is raised.

    Raises:
        AutotuneError: it cannot be imported, or is too old; of the given class.
    """
    try:
        found = importlib.import_module("torch")
    except ImportError as reason:
        raise error(
            f"{owner}: PyTorch cannot be imported ({reason}); install it with "
            "`pip install 'autotune[torch]'`"
        ) from reason
    if not hasattr(found, "library") or not hasattr(found.library, "register_autograd"):
        raise error(f"{owner}: expected PyTorch 2.4 or newer, got {found.__version__}")
    return found


def has_torch() -> bool:
    """Returns whether a PyTorch that `torch` accepts can be imported."""
    try:
        torch()
    except KernelError:
        return False
    return True


def flop_counter() -> Any:
    """Return torch's module that counts the operations of its operators."""
    torch()
    return importlib.import_module("torch.utils.flop_counter")
