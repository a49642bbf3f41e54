"""Pinned kernels: which configuration, text, machine code and time a program relies on."""

from autotune.lock.check import Checked, check_lock
from autotune.lock.entries import Locked, lock_records
from autotune.lock.files import LOCK_FILE, read_lock, write_lock
from autotune.lock.frozen import check_built, known, pinned

__all__ = [
    "LOCK_FILE",
    "Checked",
    "Locked",
    "check_built",
    "check_lock",
    "known",
    "lock_records",
    "pinned",
    "read_lock",
    "write_lock",
]
