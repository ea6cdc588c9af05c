"""All that outlives the window, in one folder: the archive, the artifacts and the facts."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from headwater.memory.archive import Archive
from headwater.memory.artifacts import Artifacts
from headwater.memory.ledger import Ledger
from headwater.memory.limits import Limits
from headwater.memory.runs import Runs
from headwater.memory.shelf import Shelf
from headwater.memory.store import OwnStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langgraph.store.base import BaseStore

    from headwater.memory.facts import Facts
    from headwater.memory.index import Index


class Memory:
    """The memory of one tenant's project. Making it opens nothing; each part opens when it is first used.

    Args:
        root: The folder; made with mode 0700.
        store: The truth about facts; by default an SQLite file in the folder. A store that is given is not
            closed.
        index: Looks facts up by meaning; by default Chroma in the folder. Words are always looked up as well.
        embeddings: For the default index; by default a small multilingual model that needs no network.
        tenant: Whose facts: no fact of another tenant is ever read.
        project: Of which project.
    """

    def __init__(
        self,
        root: str | Path = ".headwater",
        *,
        store: BaseStore | None = None,
        index: Index | None = None,
        embeddings: Embeddings | None = None,
        tenant: str = "default",
        project: str = "default",
    ) -> None:
        self.root = Path(root).expanduser().absolute()
        self.tenant = tenant
        self.project = project
        self.archive = Archive(self.root / "archive.sqlite")
        self.artifacts = Artifacts(self.root)
        self.limits = Limits(self.root / "limits.json")
        self.runs = Runs(self.root / "runs.sqlite")
        self.ledger = Ledger(self.root / "delegations.sqlite")
        self.shelf = Shelf(self.root / "shelf.sqlite", self.archive)
        self._given_store = store
        self._given_index = index
        self._embeddings = embeddings
        self._lock = threading.RLock()
        self._own_store = OwnStore(self.root)
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """Long-term facts. Chroma and the embedding model are loaded when one is written or searched."""
        with self._lock:
            if self._facts is None:
                self._facts = self._make_facts()
            return self._facts

    def close(self) -> None:
        """Close every file. What is used afterwards opens again."""
        with self._lock:
            if self._facts is not None:
                self._facts.close()
            self._own_store.close()
            self.runs.close()
            self.archive.close()
            self.artifacts.close()
            self.ledger.close()
            self.shelf.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_facts(self) -> Facts:
        from headwater.memory.chroma import ChromaIndex
        from headwater.memory.embed import SentenceEmbeddings
        from headwater.memory.facts import Facts
        from headwater.memory.rebuild import build_lease
        from headwater.memory.words import LexicalIndex

        by_meaning = self._given_index or ChromaIndex(
            self.root / "chroma", self._embeddings or SentenceEmbeddings()
        )
        given = self._given_store
        return Facts(
            self._own_store.open if given is None else lambda: given,
            LexicalIndex(self.root / "words.sqlite"),
            [by_meaning],
            tenant=self.tenant,
            project=self.project,
            exclusive=self._own_store.exclusive,
            lease=lambda: build_lease(self.root / "build.sqlite"),
        )
