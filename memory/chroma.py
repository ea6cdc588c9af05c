"""Chroma as an index: cosine over pieces of text, in-process or on a server, built anew when it fails.

A kill at the wrong moment leaves a collection that opens and then fails on use; a damaged file cannot be
opened at all, and cannot be replaced while this process holds it. So a collection that fails is dropped and
made again, and when that fails too the next numbered folder is used.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from headwater.memory.database import private_folder
from headwater.memory.embed import chunks
from headwater.memory.index import Entry, Hit, IndexBroken
from headwater.memory.lexical import gist

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection
    from langchain_core.embeddings import Embeddings

_FORMAT = "chroma-1"
_BATCH = 1_000


class ChromaIndex:
    """An `Index` by meaning.

    Args:
        where: A folder, or the address of a Chroma server ("http://host:port").
        embeddings: Any LangChain embeddings.
    """

    weight: float = 1.0

    def __init__(self, where: str | Path, embeddings: Embeddings) -> None:
        self._where = where
        self._embeddings = embeddings
        self._lock = threading.RLock()
        self._client: ClientAPI | None = None
        self._folder: Path | None = None
        self._signature = ""
        self._made: set[tuple[str, ...]] = set()
        self._spoilt = False

    @property
    def shared(self) -> bool:
        """Whether other folders use it as well: what it holds does not hang on this one."""
        return str(self._where).startswith(("http://", "https://"))

    def stamp(self, space: tuple[str, ...]) -> str | None:
        """See `Index`."""
        with self._lock, _Foreign("open"):
            collection = self._collection(space)
            return None if collection is None else (collection.metadata or {}).get("stamp")

    def reset(self, space: tuple[str, ...]) -> None:
        """See `Index`."""
        with self._lock:
            try:
                if self._spoilt and self._folder is not None:
                    self._next_folder()
                self._make(space)
            except IndexBroken:
                self._next_folder()
                self._make(space)
            self._spoilt = False
            self._made.add(space)

    def seal(self, space: tuple[str, ...], stamp: str) -> None:
        """See `Index`."""
        with self._lock, _Foreign("seal"):
            self._present(space).modify(metadata={"stamp": stamp})

    def signature(self) -> str:
        """See `Index`. Loads Chroma and embeds one word the first time, to learn the dimension.

        Without the lock: what loads for seconds, or hangs, holds up nobody who closes.
        """
        if not self._signature:
            with _Foreign("embed"):
                import_module("chromadb")
                kind = getattr(self._embeddings, "name", None) or getattr(self._embeddings, "model", None)
                size = len(self._embeddings.embed_query("headwater"))
            self._signature = f"{_FORMAT}/{kind or type(self._embeddings).__name__}/{size}"
        return self._signature

    def size(self, space: tuple[str, ...]) -> int:
        """See `Index`."""
        with self._lock, _Foreign("count"):
            return self._present(space).count()

    def pieces(self, text: str) -> int:
        """See `Index`: long texts take several rows."""
        return len(chunks(text))

    def upsert(self, space: tuple[str, ...], entries: Sequence[Entry]) -> None:
        """See `Index`."""
        rows = [(f"{e.id}#{n}", e.id, piece) for e in entries for n, piece in enumerate(chunks(e.text))]
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            # Without the lock: who looks something up in another space does not wait for embeddings.
            with _Foreign("embed"):
                vectors = self._embeddings.embed_documents([piece for _, _, piece in batch])
            with self._lock, _Foreign("upsert"):
                collection = self._present(space)
                # A fresh collection that fails shows that a kill has spoilt the folder, not the collection.
                self._spoilt = space in self._made
                collection.upsert(
                    ids=[key for key, _, _ in batch],
                    embeddings=cast(Any, vectors),
                    metadatas=[{"entry": entry} for _, entry, _ in batch],
                )
                self._spoilt = False

    def delete(self, space: tuple[str, ...], ids: Sequence[str]) -> None:
        """See `Index`."""
        with self._lock, _Foreign("delete"):
            collection = self._present(space)
            for start in range(0, len(ids), _BATCH):
                batch = list(ids[start : start + _BATCH])
                collection.delete(where=cast(Any, {"entry": {"$in": batch}}))

    def search(self, space: tuple[str, ...], query: str, k: int) -> list[Hit]:
        """See `Index`. Scores are cosine similarities, of the best piece of each entry."""
        return self.search_many(space, [query], k)[0]

    def search_many(self, space: tuple[str, ...], queries: Sequence[str], k: int) -> list[list[Hit]]:
        """What `search` answers to each query, for one call of Chroma."""
        asked = [query for query in queries if query.strip()] if k > 0 else []
        if not asked:
            return [[] for _ in queries]
        with _Foreign("embed"):
            vectors = [self._embeddings.embed_query(gist(query)) for query in asked]
        with self._lock, _Foreign("query"):
            # Twice as many, since several pieces of one entry may come first.
            found = self._present(space).query(
                query_embeddings=cast(Any, vectors), n_results=2 * k, include=["metadatas", "distances"]
            )
            rows = zip(found["metadatas"] or [], found["distances"] or [], strict=True)
            ranked = iter([_best(data, distances, k) for data, distances in rows])
            return [next(ranked) if query.strip() else [] for query in queries]

    def close(self) -> None:
        """See `Index`."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                with _Foreign("close"):
                    cast(Any, client).close()

    def _make(self, space: tuple[str, ...]) -> None:
        with _Foreign("reset"):
            client = self._opened()
            if self._collection(space) is not None:
                client.delete_collection(_name(space))
            client.create_collection(
                _name(space), configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
            )

    def _present(self, space: tuple[str, ...]) -> Collection:
        collection = self._collection(space)
        if collection is None:
            raise IndexBroken(f"{str(self._where)!r} has no collection for {space!r}: rebuild the index")
        return collection

    def _collection(self, space: tuple[str, ...]) -> Collection | None:
        from chromadb.errors import NotFoundError

        # Asked for by name each time: another process may have made it anew under another id.
        try:
            return self._opened().get_collection(_name(space), embedding_function=None)
        except NotFoundError:
            return None

    def _opened(self) -> ClientAPI:
        if self._client is None:
            import chromadb
            from chromadb.config import Settings

            settings = Settings(anonymized_telemetry=False)
            if self.shared:
                address = str(self._where)
                host, _, port = address.split("//", 1)[1].rstrip("/").partition(":")
                secure = address.startswith("https")
                self._client = chromadb.HttpClient(host, int(port or 8000), ssl=secure, settings=settings)
            else:
                self._folder = self._newest_folder()
                private_folder(self._folder)
                self._client = chromadb.PersistentClient(str(self._folder), settings=settings)
        elif self._folder is not None and not (self._folder / "chroma.sqlite3").exists():
            raise IndexBroken(f"{str(self._folder)!r} was removed while it was open")
        return self._client

    def _newest_folder(self) -> Path:
        home = Path(self._where)
        numbers = [int(p.name) for p in home.glob("*") if p.name.isdecimal()] if home.is_dir() else []
        return home / str(max(numbers, default=1))

    def _next_folder(self) -> None:
        """Leave the folder that cannot be used and go on in the next number."""
        if self._folder is None:
            raise IndexBroken(
                f"the Chroma server at {str(self._where)!r} cannot make a collection: look at its log"
            )
        broken = self._folder
        self._client = None  # closing a broken client fails, and frees nothing
        with _Foreign("open"):
            private_folder(broken.with_name(str(int(broken.name) + 1)))
        shutil.rmtree(broken, ignore_errors=True)


class _Foreign:
    """Turns whatever Chroma or the embeddings raise into `IndexBroken`.

    Both are other people's code behind a seam: Chroma raises its own errors, plain ValueError and
    AttributeError, and Rust panics that derive from BaseException; embeddings raise what their provider's
    client raises. None of it may cost a write, and there is no list to catch by.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, IndexBroken):
            return
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise IndexBroken(f"cannot {self._doing}: {type(error).__name__}: {error}") from error


def _best(metadatas: Sequence[Any], distances: Sequence[float], k: int) -> list[Hit]:
    best: dict[str, float] = {}
    for data, distance in zip(metadatas, distances, strict=True):
        # A damaged collection answers with rows that have no metadata: that fails here, and it is built anew.
        best.setdefault(str(data["entry"]), 1.0 - float(distance))
    return [Hit(key, score) for key, score in best.items()][:k]


def _name(space: tuple[str, ...]) -> str:
    # Chroma takes only ASCII letters, digits, dots, dashes and underscores, up to 512 of them.
    return "hw-" + hashlib.sha256(json.dumps(space).encode()).hexdigest()[:40]
