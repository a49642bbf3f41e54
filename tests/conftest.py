"""What all tests need."""

import signal

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--kills", type=int, default=8, help="processes that the kill campaign kills (8)"
    )
