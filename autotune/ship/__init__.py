"""Tuned kernels as a project of their own: a C library, a CMake build and a Python package.

`gather` compiles the best record of each workload, `write_project` writes the project.
"""

from autotune.ship.gather import Image, Shipment, gather
from autotune.ship.identifiers import library_name
from autotune.ship.project import write_project

__all__ = ["Image", "Shipment", "gather", "library_name", "write_project"]
