"""How often recall finds the labelled evidence: LoCoMo (English) and MADial-Bench (Chinese, English).

No model beside the embedded default. The same two indexes and the same fusion as `Facts.search`; each is
also shown alone. Labels are normalised by min(gold, k). A LoCoMo entry is one turn with its speaker, a query
one question; a MADial entry is one memory's event, a query the dialogue before the first test turn.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from headwater.memory.chroma import ChromaIndex
from headwater.memory.embed import SentenceEmbeddings
from headwater.memory.index import Entry, fuse
from headwater.memory.words import LexicalIndex

DATA = Path(__file__).parents[2] / "shared" / "data" / "memory"
SPACE = ("bench", "bench", "facts")
CANDIDATES = 40

Query = tuple[str, frozenset[str]]


def main() -> None:
    """Print evidence recall at 5 and 10 of words, vectors, and both."""
    console = Console()
    if not DATA.is_dir():
        console.print(f"no data in {str(DATA)!r}: put LoCoMo and MADial-Bench there")
        return
    table = Table(title="evidence recall", box=None)
    for name in ("set", "queries", "words @5", "@10", "vectors @5", "@10", "both @5", "@10"):
        table.add_column(name, justify="right")
    counted: list[list[float]] = []
    for name, entries, queries in sets():
        rows = list(measured(name, entries, queries))
        if name.startswith("conv"):
            counted += rows
        table.add_row(name, str(len(rows)), *_means(rows))
    table.add_row("LoCoMo, all", str(len(counted)), *_means(counted))
    console.print(table)


def sets() -> Iterator[tuple[str, list[Entry], list[Query]]]:
    """Name, entries and labelled queries of each set."""
    for sample in json.loads((DATA / "locomo" / "locomo5.json").read_text("utf-8")):
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
            (str(qa["question"]), frozenset(re.split(r"[;,\s]+", " ".join(qa.get("evidence", [])))) & known)
            for qa in sample["qa"]
        ]
        yield sample["sample_id"], entries, [query for query in labelled if query[1]]
    for language in ("zh", "en"):
        rows = _lines(f"{language}-memory.jsonl")
        entries = [Entry(key, str(row["event"])) for line in rows for key, row in line.items()]
        queries = [
            ("\n".join(line["dialogue"][1 : line["test-turn"][0]]), frozenset(map(str, line["relevant-id"])))
            for line in _lines(f"{language}-dialogue.jsonl")
        ]
        yield f"MADial {language}", entries, queries


def measured(name: str, entries: Sequence[Entry], queries: Sequence[Query]) -> Iterator[list[float]]:
    """Recall of each query: words, vectors, both, each at 5 and at 10."""
    with tempfile.TemporaryDirectory() as folder:
        indexes = (
            LexicalIndex(Path(folder) / "words.sqlite"),
            ChromaIndex(Path(folder) / "chroma", SentenceEmbeddings()),
        )
        for index in indexes:
            index.reset(SPACE)
            index.upsert(SPACE, entries)
        for query, gold in track(queries, name):
            found = [(index.weight, index.search(SPACE, query, CANDIDATES)) for index in indexes]
            ranked = [*(hits for _, hits in found), fuse(found)]
            yield [
                len({hit.id for hit in hits[:k]} & gold) / min(len(gold), k)
                for hits in ranked
                for k in (5, 10)
            ]
        for index in indexes:
            index.close()


def _means(rows: Sequence[Sequence[float]]) -> list[str]:
    return [f"{sum(column) / len(rows):.3f}" for column in zip(*rows, strict=True)]


def _lines(name: str) -> list[Mapping[str, Any]]:
    text = (DATA / "madial-bench" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
