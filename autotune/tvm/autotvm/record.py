"""AutoTVM's `record`; ``python -m autotune.tvm.autotvm.record`` has AutoTVM's commands on logs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from itertools import islice

from autotune.driver import kernel_of, lower
from autotune.measure.types import MeasureInput
from autotune.record import *
from autotune.record import __all__ as _ours
from autotune.record import encode, load_from_file, pick_best, split_workload
from autotune.record.outdated import task_refusal
from autotune.utils.escaping import visible

__all__ = [*_ours, "MeasureInput", "main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command: read, pick or split."""
    parser = argparse.ArgumentParser(
        prog="python -m autotune.tvm.autotvm.record",
        description="Read, pick or split a log of trials.",
    )
    parser.add_argument("--mode", choices=["read", "pick", "split"], default="read")
    parser.add_argument("--i", required=True, metavar="LOG", help="the log to read")
    parser.add_argument("--o", metavar="LOG", help="where `pick` writes; default LOG.best.log")
    parser.add_argument("--begin", type=int, default=0, help="first record that `read` prints")
    parser.add_argument("--end", type=int, default=5, help="the record after the last one printed")
    parser.add_argument("--ir", action="store_true", help="also print each record's loops")
    parser.add_argument("--code", action="store_true", help="also print each record's kernel")
    parser.add_argument(
        "--module", default="autotune.templates", help="what registers the log's templates"
    )
    args = parser.parse_args(argv)
    if args.mode == "pick":
        pick_best(args.i, args.o or f"{args.i}.best.log")
    elif args.mode == "split":
        split_workload(args.i)
    else:
        if args.ir or args.code:
            import_module(args.module)
        for inp, result in islice(load_from_file(args.i), args.begin, args.end):
            print(encode(inp, result))
            _explain(inp, args.ir, args.code)


def _explain(inp: MeasureInput, ir: bool, code: bool) -> None:
    """Print what a record's template makes of its configuration."""
    if not ir and not code:
        return
    refused = task_refusal(inp.task)
    if refused is not None:
        print(f"not shown: {refused.why}")
        return
    try:
        output = inp.task.realise(inp.config).what
        if ir and isinstance(output, tuple):
            with inp.target:
                print(lower(*output))
        if code:
            print(kernel_of(output, inp.target).source)
    except Exception as error:  # the template is the user's, and a log may hold anything
        print(f"not shown: {visible(str(error) or type(error).__name__)}")


if __name__ == "__main__":
    main()
