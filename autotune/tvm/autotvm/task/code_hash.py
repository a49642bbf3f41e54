"""AutoTVM's `task.code_hash`."""

from autotune.task.code_hash import attach_code_hash, attach_code_hash_to_arg

__all__ = ["attach_code_hash", "attach_code_hash_to_arg"]
