"""The child of a worker for the tests: sleeps as long as a job says."""

import time


def main(port):
    port.receive()
    port.send({})
    while True:
        job = port.receive()
        time.sleep(job["sleep"])
        port.send({"slept": job["sleep"]})
