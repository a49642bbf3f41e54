"""Tuned kernels as operators of PyTorch, which is needed only once one is made.

Example::

    import autotune

    relu_conv = autotune.torch.as_op(module, "mine::relu_conv")  # also torch.ops.mine.relu_conv
    y = torch.compile(lambda x, w: relu_conv(x, w) + 1, fullgraph=True)(x, w)
"""

from autotune.torch.operator import as_op

__all__ = ["as_op"]
