"""``autotune devices``."""

from __future__ import annotations

import json
import platform

import click

from autotune.target import CudaDevice, Target, cuda_device, cuda_device_count


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print JSON: a list of targets and devices.")
def devices(json_: bool) -> None:
    """List the devices kernels can be tuned for, and the target that names each."""
    cores = Target("llvm").limits.sm_count
    found = [cuda_device(index) for index in range(cuda_device_count())]
    if json_:
        host = {"target": "llvm", "name": platform.machine(), "cores": cores}
        rows = [_row(i, device) for i, device in enumerate(found) if device is not None]
        click.echo(json.dumps([host, *rows], indent=1))
        return
    click.echo(f"llvm: {platform.machine()}, {cores} cores")
    for index, device in enumerate(found):
        if device is not None:
            click.echo(_line(index, device))
    if not found:
        click.echo("cuda: no device; kernels can be compiled, not run")


def _row(index: int, device: CudaDevice) -> dict[str, object]:
    return {
        "target": f"cuda -arch={device.arch}",
        "device": index,
        "name": device.name,
        "bytes": device.total_bytes,
        "multiprocessors": device.limits.sm_count,
        "threads_per_block": device.limits.threads_per_block,
        "shared_bytes_per_block": device.limits.shared_bytes_optin,
    }


def _line(index: int, device: CudaDevice) -> str:
    limits = device.limits
    return (
        f"cuda -arch={device.arch}: device {index}, {device.name}, "
        f"{device.total_bytes / 2**30:.0f} GiB, {limits.sm_count} multiprocessors, "
        f"{limits.threads_per_block} threads and {limits.shared_bytes_optin // 1024} KiB of "
        f"shared memory a block"
    )
