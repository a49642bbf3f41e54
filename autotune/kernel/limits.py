"""The check of a kernel's launches against the limits of a device, made before compiling."""

from __future__ import annotations

from autotune.kernel.kernel import Kernel, KernelCall
from autotune.target import Limits, Target
from autotune.target.backends import of_language

_SHARED = "dynamic shared bytes per block"


def target_violation(kernel: Kernel, target: Target) -> str | None:
    """Return which limit of a target a launch breaks, and how another device is emulated."""
    found = launch_violation(kernel, target.limits)
    if found and _SHARED in found and target.emulate and "arch" not in target.attrs:
        found += f" ({target.arch}; the target 'cuda -emulate -arch=sm_90' emulates another)"
    return found


def launch_violation(kernel: Kernel, limits: Limits) -> str | None:
    """Return which limit a launch of ``kernel`` breaks, in words, or None if all fit."""
    if not of_language(kernel.language).on_gpu:
        return None
    return next(filter(None, (_violation(one, limits) for one in kernel.calls)), None)


def _violation(one: KernelCall, limits: Limits) -> str | None:
    launch = one.launch
    if min(*launch.block, *launch.grid) < 1:
        return f"{one.entry}: empty launch, grid {launch.grid} block {launch.block}"
    checks = [
        ("threads per block", launch.threads, limits.threads_per_block),
        (_SHARED, launch.shared_bytes, limits.shared_bytes_optin),
    ]
    for kind, sizes, most in (
        ("block", launch.block, limits.block_dim),
        ("grid", launch.grid, limits.grid_dim),
    ):
        checks += [(f"{kind}.{d}", n, m) for d, n, m in zip("xyz", sizes, most, strict=True)]
    for name, value, most_allowed in checks:
        if value > most_allowed:
            return f"{one.entry}: {name} is {value}, the device allows {most_allowed}"
    return None
