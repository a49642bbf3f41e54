"""Prints the lowest versions that setup.py promises, as constraints for pip."""

import re
import runpy
from unittest.mock import patch

with patch("setuptools.setup") as setup:
    runpy.run_path("setup.py")
given = setup.call_args.kwargs
for each in [*given["install_requires"], *given["extras_require"]["test"]]:
    name, version, marker = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(.*)", each).groups()
    print(f"{name}=={version}{marker}")
