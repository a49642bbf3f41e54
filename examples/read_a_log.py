"""What a log holds. Any log will do, one of AutoTVM's too.

python first_template.py && python read_a_log.py scale.log
"""

import sys

import autotune


def main(path: str = "scale.log") -> None:
    """Prints its records from fast to slow, then what failed."""
    records = list(autotune.record.load_from_file(path))
    ran = [(inp, result) for inp, result in records if result.ok]
    for inp, result in sorted(ran, key=lambda pair: pair[1].seconds):
        print(f"{result.seconds * 1e6:9.1f} us", autotune.Task.of(inp.task).workload, inp.config)
    for inp, result in records:
        if not result.ok:
            print(f"error {result.error_no}: {result.error_msg.splitlines()[0]}", inp.config)


if __name__ == "__main__":
    main(*sys.argv[1:])
