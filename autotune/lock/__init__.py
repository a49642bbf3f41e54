"""Pinned kernels: which configuration, text, machine code and time a program relies on.

`write_lock` keeps what `lock_records` built, `check_lock` builds, verifies and times it again, and
`pinned` is asked for each configuration while a lock is in force.
"""

from autotune.lock.check import Checked, check_lock
from autotune.lock.entries import Locked, lock_records
from autotune.lock.frozen import check_built, known, locked_functions, pinned
from autotune.lock.functions import LockedFunction
from autotune.lock.lock_file import LOCK_FILE, read_functions, read_lock, write_lock

__all__ = [
    "LOCK_FILE",
    "Checked",
    "Locked",
    "LockedFunction",
    "check_built",
    "check_lock",
    "known",
    "lock_records",
    "locked_functions",
    "pinned",
    "read_functions",
    "read_lock",
    "write_lock",
]
