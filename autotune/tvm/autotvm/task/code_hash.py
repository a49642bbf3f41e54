"""AutoTVM's `task.code_hash`."""

from typing import TYPE_CHECKING

from autotune.task.code_hash import attach_code_hash, attach_code_hash_to_arg
from autotune.tvm.names import resolver

__all__ = ["attach_code_hash", "attach_code_hash_to_arg"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
