"""The printer of statements."""

import weakref

from autotune import te
from autotune.codegen.c import C
from autotune.codegen.identifiers import Names
from autotune.codegen.statements import StatementPrinter
from autotune.lowering import lower_schedule
from autotune.utils.garbage import collection_paused


def test_what_was_printed_needs_no_collector_to_be_freed():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1, name="b")
    schedule = te.create_schedule(b.op)
    _, inner = schedule[b].split(b.op.axis[0], 8)
    schedule[b].vectorize(inner)
    (kernel,) = lower_schedule(schedule, [a, b], "f", "c").kernels
    names = Names()
    for each in kernel.params:
        names.declare(each, each.name)
    with collection_paused():
        printer = StatementPrinter(C, names, set())
        printer.body(kernel.body)
        assert printer.lines
        alive = weakref.ref(printer.expressions)
        del printer
        assert alive() is None
