"""A device of a fleet, with the interface of a device of this host."""

from __future__ import annotations

import os
from dataclasses import replace

from autotune.errors import FleetError
from autotune.fleet.member import Member
from autotune.fleet.members import Members
from autotune.fleet.messages import Answer, AnyJob, Done, Missing, Run, Sender, loggable
from autotune.fleet.queue import PlaceUnable
from autotune.fleet.relocate import files_of, relocate, runs_of
from autotune.measure.process.died import Died
from autotune.measure.run.jobs import CeilingJob, Job, ReferenceJob
from autotune.measure.run.replies import Done as DoneReply
from autotune.measure.run.replies import Failed, Raced, Ran, Unable, reply_of
from autotune.measure.types import LEAST_S
from autotune.runtime import Timing
from autotune.target.backends import HOST
from autotune.utils.plain_data import is_number

# Files up to this size go with the message that names them: artifacts do, references do not.
_SMALL_BYTES = 1 << 20
# How often a worker may answer that it lacks files that it was just sent.
_MOST_ROUNDS = 4


class RemoteDeviceProcess:
    """Sends jobs to the process that owns a device on another host.

    `autotune.measure.run.one_trial` uses it in place of a `LocalDeviceProcess`.

    Args:
        members: the workers of the fleet.
        device: number of the device's place.
        sender: the client.
        target: the target for which kernels are built.
        seed: seed of random inputs; None if the user supplies the inputs.
        cooldown_s, memory_bytes: see `autotune.fleet.messages.Run`.
    """

    def __init__(
        self,
        members: Members,
        device: int,
        sender: Sender,
        target: str,
        seed: int | None,
        cooldown_s: float,
        memory_bytes: int,
    ) -> None:
        self.device = device
        self.waited_s = self.queued_s = 0.0
        facts = members.device(device)
        # As on one host: kernels for a CPU are compiled on each.
        self.device_class = facts.device_class if facts and facts.kind != HOST.device else ""
        self._members = members
        self._run = Run(
            sender=sender,
            job=CeilingJob(0.0),
            device="",
            target=target,
            seed=seed,
            cooldown_s=cooldown_s,
            memory_bytes=memory_bytes,
            files={},
        )

    def start(self) -> None:
        """Do nothing: the worker starts the process with the first job."""

    def run(self, job: Job) -> DoneReply | Failed | Died:
        """Run a job on the device; see `LocalDeviceProcess.run` of `autotune.measure`.

        Raises:
            PlaceLost: the worker is gone.
            PlaceUnable: the worker cannot start the job.
        """
        if isinstance(job, ReferenceJob):
            raise FleetError("references are computed by the client")
        member, key = self._members.at(self.device)
        names = {path: member.name_of(path) for path in files_of(job)}
        paths = {name: path for path, name in names.items()}
        ask = replace(self._run, job=relocate(job, lambda path: names[path]), device=key)
        for _ in range(_MOST_ROUNDS):
            answer = self._asked(member, ask, job, paths)
            match answer:
                case Done(reply=reply):
                    self.waited_s += answer.waited_s
                    self.queued_s += answer.queued_s
                    return _understood(reply, job)
                case Missing(wanted):
                    if strange := set(wanted) - paths.keys():
                        raise PlaceUnable(
                            f"it asks for files of no job: {sorted(strange)[0]:.100}"
                        )
                    for name in wanted:
                        member.deliver(name, paths[name])
                case _:
                    raise PlaceUnable(f"it answered a job by {type(answer).__name__}")
        raise PlaceUnable("it does not keep the files that it is sent")

    def _asked(self, member: Member, ask: Run, job: AnyJob, paths: dict[str, str]) -> Answer:
        """Send a job, with the small files that the worker lacks, and wait for the answer."""
        artifacts = {member.name_of(run.artifact) for run in runs_of(job)}
        files = {}
        for name in artifacts:
            path = paths[name]
            if not member.has(name) and os.path.getsize(path) <= _SMALL_BYTES:
                with open(path, "rb") as file:
                    files[name] = file.read()
        answer = member.ask(replace(ask, files=files))
        member.note_sent(*files)
        return answer


def _understood(reply: object, job: AnyJob) -> DoneReply | Failed | Died:
    try:
        found = reply_of(reply)
    except (ValueError, OverflowError) as error:
        raise PlaceUnable(loggable(str(error))) from error
    if isinstance(found, Unable):
        raise PlaceUnable(loggable(found.message))
    timings = _timings(found)
    seconds = [one for timing in timings for one in (timing.median, *timing.samples_s)]
    timed = all(timing.samples_s for timing in timings)
    if not (timed and all(is_number(one) and one >= LEAST_S for one in seconds)):
        raise PlaceUnable("it tells times that are none")
    if isinstance(found, Raced) and len(timings) != len(runs_of(job)):
        raise PlaceUnable(f"it tells {len(timings)} times of a race of {len(runs_of(job))}")
    return found


def _timings(reply: DoneReply | Failed | Died) -> tuple[Timing, ...]:
    match reply:
        case Ran(timing=timing):
            return (timing,)
        case Raced(timings=timings):
            return timings
        case _:
            return ()
