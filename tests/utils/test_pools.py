import threading

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
