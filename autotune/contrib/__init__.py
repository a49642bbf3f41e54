"""TVM's name for the place of helpers around it; what is left of them here."""

from typing import TYPE_CHECKING

from autotune.migration import resolver

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
