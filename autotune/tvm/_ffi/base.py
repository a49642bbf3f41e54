"""TVM's `_ffi.base`."""

import numpy as np

from autotune.errors import AutotuneError as TVMError

__all__ = ["TVMError", "integer_types", "numeric_types", "string_types"]

integer_types = (int, np.integer)
numeric_types = (*integer_types, float, np.floating)
string_types = (str,)
