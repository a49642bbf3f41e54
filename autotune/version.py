"""The version of the package, read by setup.py and written into every log record."""

__version__ = "0.1.0"
