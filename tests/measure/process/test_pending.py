"""Work that waits: who gets what of it, whichever thread comes first."""

import threading
from concurrent.futures import Future

from autotune.measure.process.pending import Pending


class BegunSlowly(Future):
    """A future that another thread has time for while its work begins."""

    def __init__(self, meanwhile):
        super().__init__()
        self.other = threading.Thread(target=meanwhile)

    def set_running_or_notify_cancel(self):
        self.other.start()
        self.other.join(0.2)
        return super().set_running_or_notify_cancel()


def test_work_that_is_given_up_while_it_begins_is_begun_once_and_fails():
    future = BegunSlowly(lambda: pending.fail(ValueError("gone")))
    pending = Pending("work", future)
    assert pending.begin()
    future.other.join()
    assert str(future.exception(timeout=0)) == "gone"
    pending.finish("late")
    pending.drop()
    assert not pending.begin()
