"""``python -m autotune.record``: AutoTVM's commands on logs, with AutoTVM's options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from autotune.record.codec import encode
from autotune.record.reader import load_from_file
from autotune.record.tools import pick_best, split_workload


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command: read, pick or split."""
    parser = argparse.ArgumentParser(prog="python -m autotune.record", description=__doc__)
    parser.add_argument("--mode", choices=["read", "pick", "split"], default="read")
    parser.add_argument("--i", required=True, metavar="LOG", help="the log to read")
    parser.add_argument("--o", metavar="LOG", help="where `pick` writes; default LOG.best.log")
    parser.add_argument("--begin", type=int, default=0, help="first record that `read` prints")
    parser.add_argument("--end", type=int, default=5, help="the record after the last one printed")
    args = parser.parse_args(argv)
    if args.mode == "pick":
        pick_best(args.i, args.o or f"{args.i}.best.log")
    elif args.mode == "split":
        split_workload(args.i)
    else:
        for number, (inp, result) in enumerate(load_from_file(args.i)):
            if args.begin <= number < args.end:
                print(encode(inp, result))


if __name__ == "__main__":
    main()
