"""Records of the auto-scheduler under TVM's names, and `python -m` to reduce a log to its best.

python -m autotune.auto_scheduler.measure_record --mode distill -i log.json [-o best.json]
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from autotune.auto_scheduler.records.best import load_best, load_best_record
from autotune.auto_scheduler.records.distill import distill_record_file
from autotune.auto_scheduler.records.file import (
    RecordReader,
    RecordToFile,
    dump_record_to_string,
    load_record_from_string,
    load_records,
    save_records,
)
from autotune.errors import AutotuneError

__all__ = [
    "RecordReader",
    "RecordToFile",
    "distill_record_file",
    "dump_record_to_string",
    "load_best",
    "load_best_record",
    "load_record_from_string",
    "load_records",
    "main",
    "save_records",
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m autotune.auto_scheduler.measure_record",
        description="Reduce a log of the auto-scheduler to the best record of each workload.",
    )
    parser.add_argument("--mode", choices=["distill"], default="distill")
    parser.add_argument("-i", "--input", required=True, help="the log")
    parser.add_argument("-o", "--output", help="by default the log's name with .best.json")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        distill_record_file(options.input, options.output or f"{options.input}.best.json")
    except AutotuneError as error:
        print(f"measure_record: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
