"""The energy of the processors of this host, as they count it themselves (RAPL).

Linux shows the counters below ``/sys/class/powercap`` (its documentation: power capping
framework). A package has all cores, the caches and the memory controller; memory modules are
counted apart, on servers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.errors import DeviceError
from autotune.runtime.device import Device
from autotune.utils.environment import powercap_dir

_MICRO = 1e-6
# Zones inside of a package are part of it, but for memory; "psys" is the whole machine.
_COUNTED = ("package", "dram")


class Zone:
    """The counter of one part of the machine, which starts again at 0 now and then.

    Args:
        folder: of the part.

    Raises:
        DeviceError: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        self._range = _number(folder / "max_energy_range_uj")
        self._last, self._total = _number(self._file), 0

    def joules(self) -> float:
        """Return the energy since this object was made, if it is asked before a second wrap."""
        now = _number(self._file)
        self._total += now - self._last + (self._range if now < self._last else 0)
        self._last = now
        return self._total * _MICRO


class RaplMeter:
    """The sum of some zones."""

    name, poll_s, shared = "RAPL", 0.02, True

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = tuple(zones)

    def joules(self) -> float:
        """Return the energy since the zones were made.

        Raises:
            DeviceError: one cannot be read any more.
        """
        return sum(zone.joules() for zone in self._zones)


def rapl_meter(where: Device) -> RaplMeter:
    """Return the meter of all processors of this host, and of their memory where it is counted.

    Raises:
        DeviceError: there is none, or this user may not read it.
    """
    folder = powercap_dir()
    # "intel-rapl" is the name for processors of AMD, too.
    found = [each for each in sorted(folder.glob("intel-rapl:*")) if _name(each) in _COUNTED]
    if not found:
        raise DeviceError(
            f"the energy of {where} cannot be measured: {folder} has no package of intel-rapl. "
            "Linux shows it for processors of Intel and AMD with the module intel_rapl_msr, and "
            "in few virtual machines; measure without energy=True"
        )
    return RaplMeter([Zone(each) for each in found])


def _name(folder: Path) -> str:
    try:
        return (folder / "name").read_text("ascii").strip().partition("-")[0]
    except OSError:
        return ""


def _number(file: Path) -> int:
    try:
        return int(file.read_text("ascii"))
    except PermissionError as error:
        raise DeviceError(
            f"{file} cannot be read, as Linux lets only root do that: tune as root, or let "
            f"everybody read it until the next start of the machine: sudo chmod a+r {file}"
        ) from error
    except (OSError, ValueError) as error:
        raise DeviceError(f"{file} cannot be read: {error}") from error
