"""Finds the template library in a checkout that is not installed."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

_NAME = "autotune.templates"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Beside the package; an installation has it within the package, where Python finds it.
_LIBRARY = os.path.join(os.path.dirname(_PACKAGE), "templates", "__init__.py")


class CheckoutFinder:
    """Finds the template library beside the package.

    It is the last on `sys.meta_path`, so it is used only if no installation has the library.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the library, if it is asked for and is there."""
        if fullname != _NAME or not os.path.isfile(_LIBRARY):
            return None
        return spec_from_file_location(_NAME, _LIBRARY)


def find_templates() -> None:
    """Let `import autotune.templates` work in a checkout, in this process."""
    sys.meta_path.append(CheckoutFinder())
