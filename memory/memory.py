"""All that outlives the window, in one folder: the archive with an index over what was told, the artifacts,
and the facts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from headwater.memory.archive import Archive
from headwater.memory.artifacts import Artifacts
from headwater.memory.commits import Commits
from headwater.memory.delegations import Delegations, delegations_in
from headwater.memory.frames import Frames
from headwater.memory.ledger import Ledger
from headwater.memory.limits import Limits, Scales
from headwater.memory.project_docs import ProjectDocs
from headwater.memory.runs import Runs
from headwater.memory.sessions import Sessions
from headwater.memory.shelf import Shelf
from headwater.memory.store import OwnStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langgraph.store.base import BaseStore

    from headwater.memory.compartments import Compartments
    from headwater.memory.facts import Facts
    from headwater.memory.index import Index

_SHARED = ("archive", "artifacts", "limits", "scales", "runs", "ledger", "delegations", "shelf", "frames")
_TENANTS = 64
"""Other tenants whose facts are kept open."""


class Memory:
    """The memory of one tenant's project. Making it opens nothing; each part opens when it is first used.

    Args:
        root: The folder; made with mode 0700.
        store: The truth about facts; by default an SQLite file in the folder. A store that is given is not
            closed.
        index: Looks facts and compartments up by meaning; by default Chroma in the folder. Words are always
            looked up as well.
        embeddings: For the default index; by default a small multilingual model that needs no network.
        tenant: Whose facts: no fact of another tenant is ever read.
        project: Of which project.
        repository: A folder of the project; the commits of the git repository around it can be searched.
            By default the current folder, but none for a tenant with a name: the folder is the server's then.
            False: no commits.
        project_docs: The folder whose AGENTS.md, CONTEXT.md and CLAUDE.md every session is shown, or
            `ProjectDocs` of one's own; None for none.
        user_profile: Whether sessions are shown what is kept about the user, and the dreamer may learn it.
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
        repository: str | Path | Literal[False] | None = None,
        project_docs: str | Path | ProjectDocs | None = None,
        user_profile: bool = False,
    ) -> None:
        self.root: Path = Path(root).expanduser().absolute()
        self.tenant = tenant
        self.project = project
        self.archive: Archive = Archive(self.root / "archive.sqlite")
        self.artifacts: Artifacts = Artifacts(self.root)
        self.limits: Limits = Limits(self.root / "limits.json")
        self.runs: Runs = Runs(self.root / "runs.sqlite")
        delegated = delegations_in(self.root / "delegations.sqlite")
        self.delegations: Delegations = Delegations(delegated)
        self.ledger: Ledger = Ledger(delegated)
        self.shelf: Shelf = Shelf(self.root / "shelf.sqlite", self.archive)
        self.frames: Frames = Frames(self.root / "frames.sqlite")
        self.scales: Scales = Scales(self.root / "scales.json")
        self.sessions: Sessions = Sessions(self.root / "sessions.sqlite", tenant=tenant, project=project)
        if repository is None:
            repository = "." if tenant == "default" else False
        folder = Path(repository).expanduser().absolute() if repository else None
        self.commits: Commits = Commits(folder)
        self.docs: ProjectDocs | None = ProjectDocs.of(project_docs)
        self.user_profile: bool = user_profile
        self._given_store = store
        self._given_index = index
        self._embeddings = embeddings
        self._lock = threading.RLock()
        self._own_store = OwnStore(self.root)
        self._index: Index | None = index
        self._said: dict[Index, float] = {}
        self._facts: Facts | None = None
        self._compartments: Compartments | None = None
        self._tenants: OrderedDict[str, Memory] = OrderedDict()

    @property
    def facts(self) -> Facts:
        """Long-term facts. Chroma and the embedding model are loaded when one is written or searched."""
        with self._lock:
            if self._facts is None:
                self._facts = self._make_facts()
            return self._facts

    @property
    def compartments(self) -> Compartments:
        """What was told of the project's sessions, to be searched. Chroma and the embedding model are loaded
        when something is told or searched for.
        """
        with self._lock:
            if self._compartments is None:
                self._compartments = self._make_compartments()
            return self._compartments

    def of_tenant(self, tenant: str) -> Memory:
        """This memory with another tenant's facts; archive, artifacts and all else of sessions are shared.

        It is closed with this one.
        """
        if tenant == self.tenant:
            return self
        with self._lock:
            twin = self._tenants.pop(tenant, None)
            if twin is None:
                twin = Memory(
                    self.root,
                    store=self._given_store,
                    index=self._given_index,
                    embeddings=self._embeddings,
                    tenant=tenant,
                    project=self.project,
                    user_profile=self.user_profile,
                )
                for part in _SHARED:
                    setattr(twin, part, getattr(self, part))
            self._tenants[tenant] = twin
            while len(self._tenants) > _TENANTS:
                self._tenants.popitem(last=False)[1]._close_own()
            return twin

    def _close_own(self) -> None:
        """Close what is this tenant's alone."""
        with self._lock:
            if self._compartments is not None:
                self._compartments.close()
            if self._facts is not None:
                self._facts.close()
            self._own_store.close()
            self.sessions.close()

    def close(self) -> None:
        """Close every file. What is used afterwards opens again."""
        # Without the lock: a run that is writing is waited for, and asks for what else is here.
        self.runs.close()
        with self._lock:
            for twin in self._tenants.values():
                twin._close_own()
            self._close_own()
            self.archive.close()
            self.artifacts.close()
            self.delegations.close()
            self.shelf.close()
            self.frames.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_facts(self) -> Facts:
        from headwater.memory.facts import Facts
        from headwater.memory.words import LexicalIndex

        words = LexicalIndex(self.root / "words.sqlite")
        place = None if self._given_store is None else self._own_store.place
        return Facts(self._store, words, [self._by_meaning()], place=place, **self._upkeep())

    def _make_compartments(self) -> Compartments:
        from headwater.memory.compartments import Compartments
        from headwater.memory.words import LexicalIndex

        # A file of its own: how rare a word is among facts must not depend on what was told.
        words = LexicalIndex(self.root / "told.sqlite")
        # What was told is in this folder's archive, whichever store has the facts.
        return Compartments(
            self.archive, self.sessions, self._own_store.open, words, [self._by_meaning()], **self._upkeep()
        )

    def _store(self) -> BaseStore:
        if self._given_store is None:
            return self._own_store.open()
        from headwater.memory.given_store import GivenStore

        return GivenStore(self._given_store)

    def _by_meaning(self) -> Index:
        if self._index is None:
            from headwater.memory.chroma import ChromaIndex
            from headwater.memory.embed import SentenceEmbeddings

            self._index = ChromaIndex(self.root / "chroma", self._embeddings or SentenceEmbeddings())
        return self._index

    def _upkeep(self) -> dict[str, Any]:
        from headwater.memory.rebuild import build_lease

        return {
            "tenant": self.tenant,
            "project": self.project,
            "exclusive": self._own_store.exclusive,
            "lease": lambda: build_lease(self.root / "build.sqlite"),
            "said": self._said,
        }
