"""The place of TVM's `rpc` up to 0.4."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.rpc import LocalSession, RPCSession

__all__ = ["LocalSession", "RPCSession"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
