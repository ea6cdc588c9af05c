"""Kills (-9) of processes that write and read memory: what was acknowledged is there, and the folder opens.

A random trial kills a writer, every second time with a reader beside it, at a random moment of a folder
that has lived through the trials before. An aimed one kills while Chroma writes its vectors to disk: where
the next write makes it do so, or in the middle of a rebuild. With every fifth fact a stretch of history is
told, and indexed beside the writing. After each kill a new process opens the folder, looks for every fact and
compartment that a writer had been told was kept, searches, and waits until the indexes are whole again.
Writes docs/crash.md.
"""

import multiprocessing
import os
import random
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from rich.console import Console
from rich.progress import Progress

from benchmarks.crash_page import PATIENCE, Opened, Report, markdown
from headwater.memory import Memory, StorageError, compartments
from headwater.memory.embed import SentenceEmbeddings
from headwater.memory.index import IndexBroken

REPORT = Path(__file__).parents[1] / "docs" / "crash.md"
RANDOM, AIMED, SEED = 200, 50, 11
_PAGE = 25
"""Trials after which the page is written anew: all of them take long."""
_TOLD = 5
"""Facts after which a stretch of history is told."""
_LIVES = 25
"""Trials that one folder lives through."""
_BEFORE_SYNC = 990
"""Rows after which ten more make Chroma write its vectors."""

_fork = multiprocessing.get_context("fork")


class _Down(SentenceEmbeddings):
    """Embeddings that cannot be had."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise OSError("out of order")


def main() -> None:
    """Run all trials, print what was lost, and write the report."""
    console = Console()
    reports: dict[str, Report] = {}
    with Progress(console=console, auto_refresh=False) as progress:
        task = progress.add_task("kills", total=RANDOM + AIMED)

        def step() -> None:
            progress.update(task, advance=1, refresh=True)
            if sum(report.trials for report in reports.values()) % _PAGE == 0:
                REPORT.write_text(markdown(reports), encoding="utf-8")

        run(RANDOM, AIMED, SEED, step, reports)
    text = markdown(reports, (_BEFORE_SYNC, rebuild_seconds()))
    REPORT.write_text(text, encoding="utf-8")
    console.print(text, markup=False)


def run(
    randomly: int,
    aimed: int,
    seed: int = SEED,
    step: Callable[[], Any] = lambda: None,
    reports: dict[str, Report] | None = None,
) -> dict[str, Report]:
    """Make the trials; a report for each kind. Forks: call it from a process with one thread.

    Args:
        randomly, aimed: How many of each kind.
        seed: Of the moments.
        step: Called after each trial.
        reports: Filled as the trials go on.
    """
    for heavy in ("chromadb", "chromadb.api.rust", "langgraph.store.sqlite"):
        import_module(heavy)
    SentenceEmbeddings().embed_query("loaded once, before the forks")
    dice = random.Random(seed)
    reports = {} if reports is None else reports
    reports |= {"at random": Report(), "at the index sync": Report()}
    with tempfile.TemporaryDirectory() as place:
        kept: set[int] = set()
        for number in range(randomly):
            if number % _LIVES == 0:
                kept = set()
            folder = Path(place) / f"random{number // _LIVES}"
            _trial(reports["at random"], folder, kept, 1_000 * number, _at_random(dice))
            step()
        template = Path(place) / "template"
        if aimed:
            _wait(_start(_fill, template))
        for number in range(aimed):
            folder = Path(place) / f"aimed{number}"
            shutil.copytree(template, folder)
            kept = set(range(_BEFORE_SYNC))
            kill = _at_sync(dice) if number % 2 else _at_rebuild(dice)
            _trial(
                reports["at the index sync"],
                folder,
                kept,
                1_000 * (number + 1),
                kill,
                rebuild=number % 2 == 0,
            )
            shutil.rmtree(folder)
            step()
    return reports


def rebuild_seconds() -> float:
    """Seconds of one whole rebuild, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        _wait(_start(_fill, Path(place)))
        ours, theirs = _fork.Pipe()
        child = _start(_timed_rebuild, Path(place), theirs)
        seconds = float(ours.recv())
        _wait(child)
        return seconds


def text(number: int) -> str:
    """The fact of this number."""
    return f"service number {number} listens on port {10_000 + number}"


Moment = Callable[[Callable[[], int]], None]
"""Waits for the moment to kill; given a way to count the acknowledgements so far."""


def _at_random(dice: random.Random) -> Moment:
    after, wait = dice.choice((0, 1, 1, 1)), dice.uniform(0.0, 1.5)

    def moment(taken: Callable[[], int]) -> None:
        _wait_for(after, taken)
        time.sleep(wait)

    return moment


def _at_sync(dice: random.Random) -> Moment:
    after, wait = dice.randint(6, 13), dice.uniform(0.0, 0.04)

    def moment(taken: Callable[[], int]) -> None:
        _wait_for(after, taken)
        time.sleep(wait)

    return moment


def _at_rebuild(dice: random.Random) -> Moment:
    wait = dice.uniform(0.0, 2.5)

    def moment(taken: Callable[[], int]) -> None:
        _wait_for(1, taken)
        time.sleep(wait)

    return moment


def _wait_for(count: int, taken: Callable[[], int]) -> None:
    deadline = time.monotonic() + 60.0
    while taken() < count and time.monotonic() < deadline:
        time.sleep(0.0005)


def _trial(
    report: Report, folder: Path, kept: set[int], first: int, moment: Moment, *, rebuild: bool = False
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    writer = _start(_write, folder, first, writing, rebuild)
    os.close(writing)
    reader = _start(_read, folder) if first % 2_000 == 0 else None
    told: list[int] = []

    def taken() -> int:
        told.extend(_acknowledged(reading))
        return len(told)

    moment(taken)
    os.kill(writer.pid, signal.SIGKILL)
    if reader is not None and first % 4_000 == 0:
        os.kill(reader.pid, signal.SIGKILL)
    _wait(writer)
    taken()
    os.close(reading)
    kept.update(told)
    ours, theirs = _fork.Pipe()
    judge = _start(_open, folder, sorted(kept), theirs)
    found = ours.recv() if ours.poll(2 * PATIENCE) else Opened(False, 0, False, 0.0, 0.0, "it hung")
    for process in (reader, judge):
        if process is not None:
            process.kill()
            _wait(process)
    report.trials += 1
    report.acknowledged += len(told)
    report.opened.append(found)


def _acknowledged(reading: int) -> list[int]:
    told: list[int] = []
    while True:
        try:
            data = os.read(reading, 8 * 512)
        except BlockingIOError:
            return told
        if not data:
            return told
        told += [number for (number,) in struct.iter_unpack("<q", data)]


def _write(folder: Path, first: int, acknowledge: int, rebuild: bool) -> None:
    compartments.QUIET = 0.05  # so that kills hit what is indexed beside the writing
    memory = Memory(folder)
    for number in range(first, first + 1_000):
        memory.facts.write(text(number), "CONFIG_VALUES")
        if number % _TOLD == 0:
            _tell(memory, number)
        os.write(acknowledge, struct.pack("<q", number))
        if rebuild:
            memory.facts.rebuild()


def _tell(memory: Memory, number: int) -> None:
    session = _session(number)
    (tag,) = memory.archive.append(session, [HumanMessage(text(number), id=str(number))])
    memory.sessions.claim(session)
    data = {"first": tag, "last": tag, "title": str(number), "p1": f"It was settled that {text(number)}."}
    memory.archive.put_compartment(session, data)
    memory.compartments.published()


def _session(number: int) -> str:
    return f"writer {number // 1_000}"


def _read(folder: Path) -> None:
    memory = Memory(folder)
    while True:
        try:
            memory.facts.search("which service listens on port 10007?", 5)
            memory.compartments.search("writer 0", "what was settled on port 10007?", 5)
        except StorageError:
            memory.close()
        time.sleep(0.01)


def _fill(folder: Path) -> None:
    # Words are told one by one and quickly; the vectors come at once, as in a rebuild.
    with Memory(folder, embeddings=_Down()) as memory:
        for number in range(_BEFORE_SYNC):
            memory.facts.write(text(number), "CONFIG_VALUES")
    with Memory(folder) as memory:
        memory.facts.rebuild()


def _open(folder: Path, kept: list[int], answer: Connection) -> None:
    began = time.monotonic()
    try:
        with Memory(folder) as memory:
            there = {fact.content for fact in memory.facts.list(limit=1_000_000)}
            told = [n for n in kept if n % _TOLD == 0 and n >= 1_000]
            missing = sum(text(number) not in there for number in kept) + _untold(memory, told)
            query = text(kept[-1]) if kept else "anything"
            found = [fact.content for fact, _ in memory.facts.search(query, 5)]
            seconds = time.monotonic() - began
            by_words = bool(memory.facts.unindexed() or memory.compartments.unindexed())
            whole = _whole(memory, began + PATIENCE)
            healed = time.monotonic() - began
            again = [fact.content for fact, _ in memory.facts.search(query, 5)]
            seen = not told or str(told[-1]) in _titles(memory, told[-1])
            usable = whole and seen and (not kept or (query in found and query in again))
            why = f"{folder.name}: {whole=} {seen=} {found=} {again=} {missing=}"
            why = "" if usable and not missing else why
            answer.send(Opened(usable, missing, by_words, seconds, healed, why))
    except (StorageError, IndexBroken) as error:
        answer.send(Opened(False, 0, False, 0.0, 0.0, f"{folder.name}: {error}"))


def _whole(memory: Memory, deadline: float) -> bool:
    """Whether every index holds all there is before the deadline; another process may be building it."""
    while (left := deadline - time.monotonic()) > 0:
        memory.facts.settle(left)
        memory.compartments.settle(left)
        memory.facts.search("anything", 1)
        memory.compartments.search("writer 0", "anything", 1)
        if not memory.facts.unindexed() and not memory.compartments.unindexed():
            return True
        time.sleep(0.1)
    return False


def _untold(memory: Memory, told: list[int]) -> int:
    sessions = {_session(number) for number in told}
    there = {data["title"] for session in sessions for _, data in memory.archive.compartments(session)}
    return sum(str(number) not in there for number in told)


def _titles(memory: Memory, number: int) -> list[str]:
    return [one.title for one in memory.compartments.search(_session(number), text(number), 5)]


def _timed_rebuild(folder: Path, answer: Connection) -> None:
    with Memory(folder) as memory:
        memory.facts.search("loaded and open", 1)
        began = time.monotonic()
        memory.facts.rebuild()
        answer.send(time.monotonic() - began)


def _start(work: Callable[..., None], *args: Any) -> Any:
    process = _fork.Process(target=work, args=args, daemon=True)
    process.start()
    return process


def _wait(process: Any) -> None:
    process.join()
    process.close()
