import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotune.utils.pools import abandonable_pool


def test_work_is_waited_for_where_nothing_is_raised():
    done = []
    with abandonable_pool(2) as pool:
        for number in range(8):
            pool.submit(done.append, number)
    assert sorted(done) == list(range(8))


def test_an_interrupt_waits_for_no_work_and_cancels_what_has_not_begun():
    began, over, futures = threading.Event(), threading.Event(), []

    def work():
        began.set()
        assert over.wait(60)

    def interrupted():
        with abandonable_pool(1) as pool:
            futures.extend([pool.submit(work), pool.submit(work)])
            assert began.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    running, waiting = futures
    assert running.running()
    assert waiting.cancelled()
    over.set()
    running.result(60)


def test_an_interrupt_at_the_end_of_the_block_cancels_what_has_not_begun(monkeypatch):
    over, futures = threading.Event(), []
    shutdown = ThreadPoolExecutor.shutdown

    def interrupted(self, wait=True, **options):
        if wait:
            raise KeyboardInterrupt
        shutdown(self, wait, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt), abandonable_pool(1) as pool:
        futures.extend([pool.submit(over.wait, 60), pool.submit(over.wait, 60)])
    assert futures[1].cancelled()
    over.set()
    assert futures[0].result(60)
