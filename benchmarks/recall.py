"""How often recall finds the labelled evidence, and how long it takes: LoCoMo and MADial-Bench.

No model beside the embedded default. The same two indexes and the same fusion as `Facts.search`; each is
also shown alone, and plain BM25 beside them. Labels are normalised by min(gold, k). A LoCoMo entry is one
turn with its speaker, a query one question; a MADial entry is one memory's event, a query the dialogue
before the first test turn. Writes docs/recall.md.
"""

import json
import random
import re
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.plain_bm25 import PlainBM25
from headwater.memory.chroma import ChromaIndex
from headwater.memory.embed import SentenceEmbeddings
from headwater.memory.fact import fact
from headwater.memory.facts import label
from headwater.memory.index import CANDIDATES, Entry, Hit, fuse
from headwater.memory.lexical import gist
from headwater.memory.memory import Memory
from headwater.memory.words import LexicalIndex

DATA = Path(__file__).parents[2] / "shared" / "data" / "memory"
REPORT = Path(__file__).parents[1] / "docs" / "recall.md"
SPACE = ("bench", "bench", "facts")
WAYS = ("plain BM25", "words", "vectors", "both")
TUNED_ON = ("conv-26", "conv-30")
SIZES = (1_000, 10_000, 100_000)
ASKED = 100

_SPEAKER = re.compile(r'<\w+>:\s*"?(.*?)"?\s*', re.DOTALL)


class Query(NamedTuple):
    """A question, the ids of its evidence, and whether the constants were chosen on it."""

    text: str
    gold: frozenset[str]
    tuned: bool


class Row(NamedTuple):
    """Recall of each way at 5 and 10, in the order of `WAYS`, for one set of queries."""

    name: str
    queries: int
    recalls: tuple[float, ...]


class Latency(NamedTuple):
    """Milliseconds a search takes over this many facts."""

    facts: int
    searches: int
    median: float
    p95: float


def main() -> None:
    """Measure recall and latency, print both, and write the report."""
    console = Console()
    if not DATA.is_dir():
        console.print(f"no data in {str(DATA)!r}: put LoCoMo and MADial-Bench there")
        return
    rows = recalls()
    table = Table(title="evidence recall", box=None)
    for name in ("set", "queries", *(f"{way} @{k}" for way in WAYS for k in (5, 10))):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.name, str(row.queries), *(f"{value:.3f}" for value in row.recalls))
    console.print(table)
    every = [*sets()]
    texts = [entry.text for _, entries, _ in every for entry in entries]
    asked = [query.text for _, _, queries in every for query in queries][:: 1_000 // ASKED]
    latencies: list[Latency] = []
    REPORT.write_text(markdown(rows, latencies), encoding="utf-8")
    for size in SIZES:
        timed = latency(size, texts, asked, console)
        console.print(f"{timed.facts:,} facts: p50 {timed.median:.0f} ms, p95 {timed.p95:.0f} ms")
        latencies.append(timed)
        # Written each time: the largest takes most of the time.
        REPORT.write_text(markdown(rows, latencies), encoding="utf-8")


def recalls() -> list[Row]:
    """Every set whole, then the half that the constants were chosen on and the one they were not."""
    groups: dict[str, list[tuple[bool, list[float]]]] = {}
    for name, entries, queries in sets():
        group = "LoCoMo" if name.startswith("conv") else name
        groups.setdefault(group, []).extend((q.tuned, row) for q, row in measured(name, entries, queries))
    rows: list[Row] = []
    for group, found in groups.items():
        for half, kept in (("", (True, False)), (", chosen on", (True,)), (", not seen", (False,))):
            values = np.array([row for tuned, row in found if tuned in kept])
            rows.append(Row(group + half, len(values), tuple(values.mean(axis=0).tolist())))
    return rows


def sets() -> Iterator[tuple[str, list[Entry], list[Query]]]:
    """Name, entries and labelled queries of each set."""
    for sample in json.loads((DATA / "locomo" / "locomo5.json").read_text("utf-8")):
        name = str(sample["sample_id"])
        turns = [
            turn
            for key, value in sample["conversation"].items()
            if key.startswith("session_") and isinstance(value, list)
            for turn in value
        ]
        entries = [
            Entry(t["dia_id"], f"{t['speaker']}: {t['text']} {t.get('blip_caption', '')}") for t in turns
        ]
        known = {entry.id for entry in entries}
        labelled = [
            Query(
                str(qa["question"]),
                frozenset(re.split(r"[;,\s]+", " ".join(qa.get("evidence", [])))) & known,
                name in TUNED_ON,
            )
            for qa in sample["qa"]
        ]
        yield name, entries, [query for query in labelled if query.gold]
    for language in ("zh", "en"):
        rows = _lines(f"{language}-memory.jsonl")
        entries = [Entry(key, str(row["event"])) for line in rows for key, row in line.items()]
        queries = []
        for line in _lines(f"{language}-dialogue.jsonl"):
            said = "\n".join(_said(turn) for turn in line["dialogue"][1 : line["test-turn"][0]])
            tuned = zlib.crc32(said.encode()) % 2 == 0
            queries.append(Query(said, frozenset(map(str, line["relevant-id"])), tuned))
        yield f"MADial {language}", entries, queries


def measured(
    name: str, entries: Sequence[Entry], queries: Sequence[Query]
) -> Iterator[tuple[Query, list[float]]]:
    """Recall of each query by each way, each at 5 and at 10."""
    plain = PlainBM25(entries)
    with tempfile.TemporaryDirectory() as folder:
        indexes = (
            LexicalIndex(Path(folder) / "words.sqlite"),
            ChromaIndex(Path(folder) / "chroma", Batched([query.text for query in queries])),
        )
        for index in indexes:
            index.reset(SPACE)
            index.upsert(SPACE, entries)
        for query in track(queries, name):
            found = [(index.weight, index.search(SPACE, query.text, CANDIDATES)) for index in indexes]
            ranked: list[Sequence[Hit]] = [plain.search(query.text, 10), *(hits for _, hits in found)]
            ranked.append(fuse(found))
            yield (
                query,
                [
                    len({hit.id for hit in hits[:k]} & query.gold) / min(len(query.gold), k)
                    for hits in ranked
                    for k in (5, 10)
                ],
            )
        for index in indexes:
            index.close()


class Batched(Embeddings):
    """The real vectors; those of queries that are known beforehand are made in one go, which is faster."""

    def __init__(self, queries: Sequence[str]) -> None:
        self._real = SentenceEmbeddings()
        texts = [gist(query) for query in queries]
        self._known = dict(zip(texts, self._real.embed_documents(texts), strict=True))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """See `SentenceEmbeddings`."""
        return self._real.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """See `SentenceEmbeddings`."""
        return self._known.get(text) or self._real.embed_query(text)


class RandomVectors(Embeddings):
    """Facts get random unit vectors, queries real ones: what a search costs depends little on which."""

    def __init__(self) -> None:
        self._real = SentenceEmbeddings()
        self._random = np.random.default_rng(5)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One random vector of length 1 a text."""
        vectors = self._random.standard_normal((len(texts), 512))
        found: list[list[float]] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        """The real vector."""
        return self._real.embed_query(text)


def latency(size: int, texts: Sequence[str], asked: Sequence[str], console: Console) -> Latency:
    """Searches through `Facts.search`, store and both indexes on disk, after one that opens them."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore.from_conn_string(f"{folder}/facts") as store:
        store.setup()
        memory = Memory(Path(folder) / "memory", store=store, embeddings=RandomVectors())
        space = (label(memory.tenant), label(memory.project), "facts")
        facts = [fact(text, "ARCHITECTURE", now=float(n)) for n, text in enumerate(_facts_of(texts, size))]
        for start in range(0, size, 5_000):
            store.batch([PutOp(space, f.id, f.to_value(), index=False) for f in facts[start : start + 5_000]])
        with console.status(f"{size:,} facts are indexed"):
            memory.facts.rebuild()
            memory.facts.search("open everything", 10)
        taken: list[float] = []
        for query in track(asked, f"{size:,} facts", console=console):
            began = time.perf_counter()
            memory.facts.search(query, 10)
            taken.append(1_000 * (time.perf_counter() - began))
        memory.close()
    return Latency(size, len(taken), float(np.percentile(taken, 50)), float(np.percentile(taken, 95)))


def markdown(rows: Sequence[Row], latencies: Sequence[Latency]) -> str:
    """The report."""
    heads = [f"{way} @{k}" for way in WAYS for k in (5, 10)]
    lines = [
        "# How well facts are found again",
        "",
        "Written by `python -m benchmarks recall`: LoCoMo (five conversations, English) and MADial-Bench",
        "(Chinese, English) by their evidence labels, no model beside the embedded encoder. Recall counts",
        "the labelled evidence among the first 5 or 10 hits, over min(labels, 5 or 10).",
        "",
        "*Plain BM25*: k1 1.5, b 0.75, lower-cased words, single ideographs. *Words* and *vectors* are the",
        "two indexes alone, *both* is what `Facts.search` answers by. Weights and BM25's constants were",
        f"chosen on {' and '.join(TUNED_ON)} of LoCoMo and on the half of MADial-Bench's dialogues whose",
        "CRC-32 is even (*chosen on*); the rest was only measured (*not seen*). The list of words that a",
        "question loses before it is embedded is older than this division.",
        "",
        "| set | queries | " + " | ".join(heads) + " |",
        "| :-- |" + " --: |" * (1 + len(heads)),
    ]
    lines += [
        f"| {row.name} | {row.queries:,} | " + " | ".join(f"{v:.3f}" for v in row.recalls) + " |"
        for row in rows
    ]
    lines += [
        "",
        "## Both, against each alone",
        "",
        "| set | both ÷ plain BM25 @5 | @10 | both − better of plain BM25 and vectors @5 | @10 |",
        "| :-- | --: | --: | --: | --: |",
    ]
    for row in rows:
        plain, _, vectors, both = (row.recalls[i : i + 2] for i in range(0, 8, 2))
        ratios = [f"{b / p:.2f}" for b, p in zip(both, plain, strict=True)]
        gains = [f"{b - max(p, v):+.3f}" for b, p, v in zip(both, plain, vectors, strict=True)]
        lines.append(f"| {row.name} | {' | '.join(ratios)} | {' | '.join(gains)} |")
    if not latencies:
        return "\n".join(lines) + "\n"
    lines += [
        "",
        "## How long a search takes",
        "",
        f"{latencies[0].searches} searches for 10 facts through `Facts.search`, by queries of these sets;",
        "the store and both indexes are on disk, and the query is embedded in this time. The facts are",
        "halves of the sets' texts put together; their vectors are random, of length 1, for embedding a",
        "hundred thousand facts takes longer than to measure all else.",
        "",
        "| facts | p50 ms | p95 ms |",
        "| --: | --: | --: |",
        *(f"| {t.facts:,} | {t.median:.0f} | {t.p95:.0f} |" for t in latencies),
    ]
    return "\n".join(lines) + "\n"


def _facts_of(texts: Sequence[str], size: int) -> Iterator[str]:
    """As many different facts as asked for, each half of one text and half of another."""
    drawn = random.Random(size)
    for number in range(size):
        one, two = drawn.choice(texts), drawn.choice(texts)
        yield f"{one[: len(one) // 2][:150]} {two[len(two) // 2 :][:150]} ({number})"


def _said(turn: str) -> str:
    speaker = _SPEAKER.fullmatch(turn.strip())
    return speaker[1] if speaker else turn.strip()


def _lines(name: str) -> list[Mapping[str, Any]]:
    text = (DATA / "madial-bench" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
