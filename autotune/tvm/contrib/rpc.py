"""The place of TVM's `rpc` up to 0.4."""

from autotune.tvm.rpc import LocalSession, RPCSession

__all__ = ["LocalSession", "RPCSession"]
