"""Kernels that are chosen, and tuned, when they are called.

Example::

    @autotune.jit(my_gemm, tune="background", budget_s=60)
    def gemm(a, b, c):
        return a.shape[0], b.shape[1], a.shape[1]  # arguments of the template

    gemm(a, b, c)  # a tuned kernel if there is one, the nearest otherwise; better ones come later
"""

from autotune.just_in_time.jit import Jit, jit

__all__ = ["Jit", "jit"]
