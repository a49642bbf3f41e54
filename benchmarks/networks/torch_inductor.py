"""Functions compiled by PyTorch's compiler (inductor), their weights known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(torch: Any, run: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """Return a function of a tensor, compiled for it; its parameters are frozen, and packed.

    Args:
        torch: the module; its compiler needs one of C++.
        run: the function; tensors that it reads besides are its parameters.
        x: what it is applied to.
    """
    from torch._inductor import config
    from torch.fx.experimental.proxy_tensor import make_fx

    config.freezing = True
    module = make_fx(run)(x)
    for key, value in list(vars(module).items()):
        if isinstance(value, torch.Tensor):
            delattr(module, key)
            module.register_buffer(key, value)
    function = torch.compile(module.eval())
    function(x)
    return lambda: function(x)
