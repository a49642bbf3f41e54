"""Models and tuned kernels in PyTorch, which is needed only once this is used.

Example::

    import autotune

    fast = torch.compile(model, backend="autotune")  # or autotune.torch.compile(model, inputs)

    relu_conv = autotune.torch.as_op(module, "mine::relu_conv")  # also torch.ops.mine.relu_conv
    y = torch.compile(lambda x, w: relu_conv(x, w) + 1, fullgraph=True)(x, w)
"""

from autotune.torch.backend import backend, register
from autotune.torch.compiled import CompiledModel, compile
from autotune.torch.operator import as_op

__all__ = ["CompiledModel", "as_op", "backend", "compile"]

register()
