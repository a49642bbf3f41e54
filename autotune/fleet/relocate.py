"""Replacing the file names of jobs: hashes while a job is sent, paths where it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.fleet.messages import AnyJob
from autotune.measure.run.jobs import CeilingJob, Check, RaceJob, RunJob

Where = Callable[[str], str]


def relocate(job: AnyJob, where: Where) -> AnyJob:
    """Return a job with ``where(file)`` in place of each of its files."""
    match job:
        case RunJob():
            return _run(job, where)
        case RaceJob():
            return replace(job, runs=tuple(_run(one, where) for one in job.runs))
        case CeilingJob():
            return job


def files_of(job: AnyJob) -> list[str]:
    """Return the files of a job without duplicates."""
    found: dict[str, None] = {}

    def note(file: str) -> str:
        found[file] = None
        return file

    relocate(job, note)
    return list(found)


def runs_of(job: AnyJob) -> tuple[RunJob, ...]:
    """Return the kernel runs of a job."""
    match job:
        case RunJob():
            return (job,)
        case RaceJob():
            return job.runs
        case CeilingJob():
            return ()


def _run(job: RunJob, where: Where) -> RunJob:
    def check(one: Check) -> Check:
        return replace(one, path=where(one.path), bounds=one.bounds and where(one.bounds))

    return replace(
        job,
        artifact=where(job.artifact),
        inputs=tuple(where(one) for one in job.inputs),
        checks=tuple(check(one) for one in job.checks),
    )
