"""Packs: logs of the best records of one device, listed in an index with their hashes."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date as Date
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urldefrag, urljoin
from urllib.request import urlopen

from autotune.errors import RecordError
from autotune.measure.types import MeasureResult, Pair
from autotune.record import best_of_each, is_race
from autotune.record.database import row_of
from autotune.record.origin import as_measured, with_arch
from autotune.target import Target
from autotune.task import Task
from autotune.utils import environment
from autotune.utils.files import publish, read_own, write_atomically

logger = logging.getLogger("autotvm")

INDEX = "packs.json"
_VERSION = 1
# Packs hold the best record of each workload: more than this is something else.
_MOST_BYTES = 64 << 20
_TIMEOUT_S = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_URL = re.compile(r"(https?|file)://")


@dataclass(frozen=True)
class Pack:
    """One log of an index.

    Attributes:
        file: its name beside the index.
        sha256: of its bytes.
        records: how many it holds.
        tasks: of which templates.
        target: kind of target of its records, such as ``"cuda"``.
        arch: architecture, such as ``"sm_90"``.
        device: name of the device that they were measured on.
        date: when, ``YYYY-MM-DD``.
        command: what measured them.
        source: where the index is: a folder or a URL.
    """

    file: str
    sha256: str
    records: int
    tasks: tuple[str, ...]
    target: str
    arch: str
    device: str
    date: str
    command: str
    source: str = ""


def packs(source: str | Path) -> list[Pack]:
    """Return the packs that an index lists.

    Args:
        source: a folder, or the URL (``https:``, ``http:`` or ``file:``) of a folder or of its
            index. ``#sha256=...`` at the end of a URL is the hash that the index must have;
            without it only the logs are checked, by the hashes in the index.

    Raises:
        RecordError: there is no index, or it is malformed, or has another hash.
    """
    place, content = _index(source)
    try:
        rows = json.loads(content)
        if rows["version"] != _VERSION:
            raise ValueError(f"version {rows['version']!r}, expected {_VERSION}")
        return [_pack(row, place) for row in rows["packs"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"hub: {place} is no index of packs: {error!s:.200}") from error


def log_of(pack: Pack) -> Path:
    """Return the path of a pack's log; one of a URL is fetched once and kept.

    Raises:
        RecordError: it cannot be had, or is another than the index says.
    """
    if not _URL.match(pack.source):
        path = Path(pack.source, pack.file)
        _checked(pack, _read(path), str(path))
        return path
    kept = environment.cache_dir() / "hub" / f"{pack.sha256}.log"
    try:
        _checked(pack, read_own(kept), str(kept))
    except (OSError, RecordError):
        url = urljoin(pack.source, pack.file)
        content = _fetched(url)
        _checked(pack, content, url)
        try:
            write_atomically(kept, content)
        except OSError as error:
            raise RecordError(f"hub: cannot keep {url} in {kept}: {error.strerror}") from error
    return kept


def make_pack(
    records: Iterable[Pair],
    folder: Path,
    name: str,
    *,
    arch: str,
    device: str,
    date: str,
    command: str,
    least_gain: float = 1.0,
) -> Pack:
    """Add the best record of each workload to a folder of packs, replacing a pack of that name.

    Only winners of final races are used, not faster trials without a race, and only if the untuned
    choice was not faster in the race: so a pack never makes a template slower. If answers of some
    were not compared with a reference, a warning says of how many.

    Args:
        records: records with the winners of races, of CUDA or of the CPU.
        arch: the architecture on which they were measured; records of another are refused.
        folder: the folder of the index, which need not exist.
        name: name of the log, without its suffix.
        device, date, command: see `Pack`.
        least_gain: the least speedup over the untuned choice in the race; more than 1 leaves out
            records of layers whose untuned choice is good enough.

    Raises:
        RecordError: there are no records, or records of several architectures; the name or the
            date is invalid; or the folder cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise RecordError(f"hub: expected a name of letters and digits, got {name!r}")
    if not _is_date(date):
        raise RecordError(f"hub: expected a date as YYYY-MM-DD, got {date!r}")
    best = _winners(records, arch, least_gain)
    target = _kind_of({inp.target for inp, _ in best}, arch)
    rows = sorted(row_of(*pair) for pair in best)
    content = "".join(f"{row}\n" for row in rows).encode()
    pack = Pack(
        file=f"{name}.log",
        sha256=hashlib.sha256(content).hexdigest(),
        records=len(rows),
        tasks=tuple(sorted({inp.task.name for inp, _ in best})),
        target=target, arch=arch, device=device, date=date, command=command, source=str(folder),
    )  # fmt: skip
    _add(pack, content, folder)
    unchecked = sum(not result.evidence.verified for _, result in best)
    if unchecked:
        logger.warning(
            "hub: the answers of %d of %d records in %s were not compared with a reference",
            unchecked, len(rows), pack.file,
        )  # fmt: skip
    return pack


def _winners(records: Iterable[Pair], arch: str, least_gain: float) -> list[Pair]:
    """Return the best record of each task, of those that won a race by enough.

    Raises:
        RecordError: there is none.
    """
    raced = (pair for pair in of_arch(records, arch) if is_race(pair[1]))
    best = [
        (inp, result)
        for inp, result in best_of_each(raced)
        if isinstance(inp.task, Task) and _gains(result, least_gain)
    ]
    if best:
        return best
    raise RecordError(
        f"hub: expected records of {arch} that won a final race and are at least {least_gain:g} "
        "times as fast as the untuned choice, got none; tune until there is a final race"
    )


def _kind_of(targets: Iterable[Target], arch: str) -> str:
    """Return the kind that targets of one architecture have in common.

    Raises:
        RecordError: they are of another architecture, or of several.
    """
    kinds = {(str(target.kind), target.arch) for target in targets}
    on_gpu = arch.startswith("sm_")
    if not all(target.backend.on_gpu == on_gpu for target in targets):
        expected = "of CUDA devices" if on_gpu else "of CPUs"
        found = ", ".join(sorted(kind for kind, _ in kinds))
        raise RecordError(f"hub: {arch} is an architecture {expected}, got records of {found}")
    if len(kinds) != 1 or {found for _, found in kinds} != {arch}:
        found = ", ".join(sorted(" ".join(kind) for kind in kinds))
        raise RecordError(f"hub: expected records of {arch}, got those of {found}")
    ((kind, _),) = kinds
    return kind


def _add(pack: Pack, content: bytes, folder: Path) -> None:
    """Write a pack to a folder, and name it in the folder's index."""
    others = packs(folder) if (folder / INDEX).exists() else []
    listed = [each for each in others if each.file != pack.file] + [pack]
    listed.sort(key=lambda each: each.file)
    index = {"version": _VERSION, "packs": [_row(each) for each in listed]}
    for file, text in ((pack.file, content), (INDEX, f"{json.dumps(index, indent=1)}\n".encode())):
        try:
            publish(folder / file, text)
        except OSError as error:
            raise RecordError(f"hub: cannot write {folder / file}: {error.strerror}") from error


def _is_date(text: str) -> bool:
    try:
        return Date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def of_arch(records: Iterable[Pair], arch: str) -> Iterator[Pair]:
    """Yield records whose targets name an architecture: this one, where nothing says another."""
    for pair in map(as_measured, records):
        named = "arch" in pair[0].target.attrs or not isinstance(pair[0].task, Task)
        yield pair if named else with_arch(pair, arch)


def _gains(result: MeasureResult, least: float) -> bool:
    race = result.evidence.race
    default = None if race is None else race.default_seconds
    return default is None or default >= least * result.seconds


def _row(pack: Pack) -> dict[str, object]:
    return {key: value for key, value in asdict(pack).items() if key != "source"}


def _pack(row: dict[str, object], place: str) -> Pack:
    names = [each.name for each in fields(Pack) if each.name != "source"]
    values = {name: row[name] for name in names}
    tasks = values.pop("tasks")
    if not isinstance(tasks, list) or type(values["records"]) is not int:
        raise TypeError("'tasks' is a list, 'records' a whole number")
    texts = [value for name, value in values.items() if name != "records"]
    if not all(isinstance(text, str) for text in (*texts, *tasks)):
        raise TypeError("what an index says of a pack are texts")
    if not _NAME.fullmatch(str(values["file"])):
        raise ValueError(f"{values['file']!r} is no name of a file")
    if not re.fullmatch(r"[0-9a-f]{64}", str(values["sha256"])):
        raise ValueError("'sha256' has 64 digits")
    return Pack(**values, tasks=tuple(map(str, tasks)), source=place)  # type: ignore[arg-type]


def _index(source: str | Path) -> tuple[str, bytes]:
    """Return the place of an index, and what is in it."""
    if not isinstance(source, str) or not _URL.match(source):
        return str(source), _read(Path(source) / INDEX)
    url, fragment = urldefrag(source)
    if not url.endswith(".json"):
        url = urljoin(url if url.endswith("/") else f"{url}/", INDEX)
    content = _fetched(url)
    wanted = fragment.removeprefix("sha256=")
    found = hashlib.sha256(content).hexdigest()
    if fragment and found != wanted:
        raise RecordError(f"hub: {url} has the hash {found}, expected {wanted}; it was changed")
    return url, content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"hub: cannot read {path}: {error.strerror}") from error


def _fetched(url: str) -> bytes:
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read(_MOST_BYTES + 1)
    except (URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise RecordError(f"hub: cannot fetch {url}: {why}") from error
    if len(content) > _MOST_BYTES:
        raise RecordError(f"hub: {url} has more than {_MOST_BYTES >> 20} MiB; it is no pack")
    return content


def _checked(pack: Pack, content: bytes, where: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != pack.sha256:
        raise RecordError(
            f"hub: {where} has the hash {found}, its index says {pack.sha256}; fetch it again"
        )
