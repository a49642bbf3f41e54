"""Small helpers that know nothing of kernels: arithmetic, SI prefixes, child processes."""

from typing import TYPE_CHECKING

from autotune.migration import resolver

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
