"""``autotune devices``."""

from __future__ import annotations

import platform

import click

from autotune.target import Target, cuda_device, cuda_device_count


@click.command()
def devices() -> None:
    """List the devices kernels can be tuned for, and the target that names each."""
    click.echo(f"llvm: {platform.machine()}, {Target('llvm').limits.sm_count} cores")
    for index in range(cuda_device_count()):
        device = cuda_device(index)
        if device is None:
            continue
        limits = device.limits
        click.echo(
            f"cuda -arch={device.arch}: device {index}, {device.name}, "
            f"{device.total_bytes / 2**30:.0f} GiB, {limits.sm_count} multiprocessors, "
            f"{limits.threads_per_block} threads and {limits.shared_bytes_optin // 1024} KiB of "
            f"shared memory a block"
        )
    if not cuda_device_count():
        click.echo("cuda: no device; kernels can be compiled, not run")
