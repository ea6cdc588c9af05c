"""What a store holds beside its rows about the indexes over them: the rows one may lack, and its epoch.

A row's mark is written in the same batch as the row, and is taken away when every index has been told.
Folders that share a store have indexes of their own: there is a mark for each of them. An index that was
built whole carries the epoch that the store names; renewing the epoch says that it must be built anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp

from headwater.memory.index import Index
from headwater.memory.places import Places

_PAGE = 1_000


class Marks:
    """The marks of one space of rows, for the indexes of this folder.

    Args:
        store: Gives the open store.
        space: (tenant, project, kind), the rows' namespace.
        exclusive: Held while marks are taken away, so that no newer mark goes with them.
        places: The folders that share the store; None where it is this folder's own.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        exclusive: Callable[[], AbstractContextManager[Any]],
        places: Places | None = None,
    ) -> None:
        self._store = store
        self._space = space
        self._exclusive = exclusive
        self._places = places
        self._told: list[str] = []

    def puts(self, ids: Sequence[str]) -> list[PutOp]:
        """What to put into the store in the same batch as changed rows."""
        if self._places is None or not ids:
            return marks_in(self._space, ids)
        self._told = self._places.all()
        return [put for place in self._told for put in marks_in(self._space, ids, place)]

    def put(self, ids: Sequence[str]) -> None:
        """To be called when that batch was put: a folder that has come meanwhile may have read too early."""
        if self._places is None or not ids:
            return
        new = [place for place in self._places.all() if place not in self._told]
        if new:
            self._store().batch([put for place in new for put in marks_in(self._space, ids, place)])

    def all(self) -> list[Item]:
        """Every mark, by the id of its row; its value differs from that of any other mark."""
        found: list[Item] = []
        while page := self._store().search(self._name, limit=_PAGE, offset=len(found)):
            found += page
            if len(page) < _PAGE:
                break
        return found

    def any(self) -> bool:
        """Whether a row is marked."""
        return bool(self._store().search(self._name, limit=1))

    def clear(self, told: Mapping[str, Any]) -> None:
        """Take away the marks that still are as they were told, by id."""
        with self._exclusive():
            done = [item.key for item in self.all() if told.get(item.key) == item.value]
            self._store().batch([PutOp(self._name, key, None) for key in done])

    def missed(self) -> bool:
        """Whether changes may have been made without a mark for this folder; asked once."""
        return self._places is not None and self._places.missed()

    def close(self) -> None:
        """The next use says anew that this folder is there."""
        if self._places is not None:
            self._places.leave()

    @property
    def _name(self) -> tuple[str, ...]:
        return _marks_of(self._space, "" if self._places is None else self._places.here())


class Epochs:
    """The epochs of the indexes over one space of rows, by class name.

    Args:
        store: Gives the open store.
        space: The rows' namespace.
    """

    def __init__(self, store: Callable[[], BaseStore], space: tuple[str, str, str]) -> None:
        self._store = store
        self._space = (*space[:2], "indexes", space[2])

    def built(self, index: Index) -> bool:
        """Whether it was ever whole: only then can something have been lost."""
        item = self._store().get(self._space, _key(index))
        # Epochs of earlier releases do not say.
        return item is not None and bool(item.value.get("built", True))

    def stamp(self, index: Index) -> str:
        """What the index carries if it was built whole in this epoch and with what it is built with now."""
        item = self._store().get(self._space, _key(index))
        epoch = self.renew(index) if item is None else item.value["epoch"]
        return f"{epoch}/{index.signature()}"

    def renew(self, index: Index) -> str:
        """Begin a new epoch: the index is built whole before it is used again."""
        epoch = uuid.uuid4().hex
        value = {"epoch": epoch, "built": self.built(index)}
        self._store().put(self._space, _key(index), value, index=False)
        return epoch

    def sealed(self, index: Index) -> None:
        """Note that the index was built whole."""
        item = self._store().get(self._space, _key(index))
        if item is not None and not item.value.get("built", True):
            self._store().put(self._space, _key(index), {**item.value, "built": True}, index=False)


def marks_in(space: tuple[str, str, str], ids: Sequence[str], place: str = "") -> list[PutOp]:
    """What to put into the store so that whoever keeps this space's indexes looks at these rows again."""
    name = _marks_of(space, place)
    return [PutOp(name, key, {"change": uuid.uuid4().hex}, index=False) for key in ids]


def _marks_of(space: tuple[str, str, str], place: str) -> tuple[str, ...]:
    return (*space[:2], "unindexed", space[2], *([place] if place else []))


def _key(index: Index) -> str:
    return type(index).__name__
