"""TVM's `auto_scheduler.workload_registry`."""

from autotune.auto_scheduler.workload_registry import (
    WORKLOAD_FUNC_REGISTRY,
    decode_workload_key_to_func_args,
    deserialize_workload_registry_entry,
    load_workload_func_registry,
    make_workload_key,
    register_workload,
    register_workload_tensors,
    save_workload_func_registry,
    serialize_workload_registry_entry,
    workload_func_name,
    workload_key_to_tensors,
)

__all__ = [
    "WORKLOAD_FUNC_REGISTRY",
    "decode_workload_key_to_func_args",
    "deserialize_workload_registry_entry",
    "load_workload_func_registry",
    "make_workload_key",
    "register_workload",
    "register_workload_tensors",
    "save_workload_func_registry",
    "serialize_workload_registry_entry",
    "workload_func_name",
    "workload_key_to_tensors",
]
