"""Rows of logs for the tests of reports."""

from autotune.record import encode
from tests.record.records import failed, good, make_config, make_input

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`${1}\u2028<!--"


def row(workload, seconds, k=1, message="it crashed", **known):
    result = good(seconds, **known) if seconds else failed(4, message)
    return encode(make_input(workload, (64,), "llvm", make_config(k, k=k)), result)
