"""A child for the tests of child processes: does what the request says."""

import os
import signal
import subprocess
import sys
import time


def main(port):
    port.watch()
    while True:
        what, value = port.receive()
        if what == "echo":
            port.send(value)
        elif what == "surroundings":
            port.send([os.getcwd(), dict(os.environ), sys.path])
        elif what == "print":
            print(value, flush=True)
            port.send("printed")
        elif what == "crash":
            print(value, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        elif what == "exit":
            os._exit(value)
        elif what == "garbage":
            os.write(port._replies, b"\xff" * 64)
            time.sleep(60)
        elif what == "sleep":
            time.sleep(value)
        elif what == "grandchild":
            port.send(subprocess.Popen(["sleep", "60"]).pid)
