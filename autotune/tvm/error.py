"""TVM's errors."""

from autotune.errors import AutotuneError as TVMError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "TVMError",
]

# Errors are kinds of one here, so that what handles TVM's handles them.
DiagnosticError = InternalError = OpError = RPCError = TVMError
OpNotImplemented = OpAttributeInvalid = TVMError
OpAttributeRequired = OpAttributeUnImplemented = TVMError
