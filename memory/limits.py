"""What models have taught at their endpoints: the windows they proved (G33) and how they count (M17)."""

import json
import os
import threading
from pathlib import Path

from headwater.memory.database import private_folder
from headwater.window.calibration import MAX_SCALE, MIN_SCALE

SMALLEST, LARGEST = 1_024, 10_000_000
LIFETIME = 7 * 24 * 3600.0
WORTH_WRITING = 0.02
"""Share by which a scale must have moved before it is written again."""


class _Lessons:
    """Numbers by "model@endpoint", each with the time it was learned at, in a small JSON file.

    A file that cannot be used costs the lesson, never the session.

    Args:
        path: The file, made when the first lesson is learned.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, list[float]] | None = None

    def _find(self, key: str) -> list[float] | None:
        with self._lock:
            return self._read().get(key)

    def _keep(self, key: str, value: float, now: float) -> None:
        with self._lock:
            # Another process may have learned meanwhile.
            self._known = None
            self._read()[key] = [value, now]
            self._write()

    def _rows(self) -> dict[str, list[float]]:
        with self._lock:
            return dict(self._read())

    def _read(self) -> dict[str, list[float]]:
        if self._known is None:
            try:
                data = json.loads(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                data = {}
            rows = data.items() if isinstance(data, dict) else ()
            self._known = {k: [float(v[0]), float(v[1])] for k, v in rows if _is_row(v)}
        return self._known

    def _write(self) -> None:
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            private_folder(self._path.parent)
            part.write_text(json.dumps(self._known, indent=1), encoding="utf-8")
            part.replace(self._path)
        except OSError:
            # Known in this process all the same; the next one learns it again.
            part.unlink(missing_ok=True)


class Limits(_Lessons):
    """Windows that refusals have proved, in tokens; kept for a week (G33)."""

    def get(self, key: str, now: float) -> int | None:
        """The limit in tokens for "model@endpoint", None when none is known or it is older than a week.

        A lesson fades so that one wrong number does not cripple a model for ever: it is simply probed again.
        """
        known = self._find(key)
        if known is None or not 0 <= now - known[1] <= LIFETIME:
            return None
        return int(known[0])

    def learn(self, key: str, limit: int, now: float) -> int | None:
        """Remember a limit; the lower one wins. Returns what holds now, None for a number nobody can mean."""
        if not SMALLEST <= limit <= LARGEST:
            return self.get(key, now)
        standing = self.get(key, now)
        limit = limit if standing is None else min(limit, standing)
        self._keep(key, limit, now)
        return limit

    def all(self) -> dict[str, tuple[int, float]]:
        """Every limit with the time it was learned at, expired ones included."""
        return {key: (int(limit), at) for key, (limit, at) in self._rows().items()}


class Scales(_Lessons):
    """Reported ÷ counted tokens as usage has shown it, so that a new session starts calibrated.

    They do not expire: a wrong one is set right by the first requests of a session.
    """

    def get(self, key: str) -> float | None:
        """The scale for "model@endpoint" (0.8-3.0), None when none is known or the file says nonsense."""
        known = self._find(key)
        return known[0] if known is not None and MIN_SCALE <= known[0] <= MAX_SCALE else None

    def learn(self, key: str, scale: float, now: float) -> None:
        """Remember a scale; one that has hardly moved is not written again."""
        known = self.get(key)
        if known is None or abs(scale - known) > WORTH_WRITING * known:
            self._keep(key, scale, now)

    def all(self) -> dict[str, tuple[float, float]]:
        """Every scale with the time it was learned at."""
        return {key: (scale, at) for key, (scale, at) in self._rows().items()}


def _is_row(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value)
