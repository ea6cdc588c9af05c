"""The hours in which a dream may run: local time, over midnight if need be, the end not included (G16)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from headwater.memory.dream_change import DreamError

_TIME = re.compile(r"(\d{1,2}):(\d{2})")
_DAY = 24 * 60


class Hours(NamedTuple):
    """Minutes of the day at which the window opens and closes; equal to a day's length means always."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> Hours:
        """The window in "02:00-06:00", "23:00-05:00" or "00:00-24:00".

        Raises:
            DreamError: It is no such window, or an empty one.

        >>> Hours.parse("23:00-05:00")
        Hours(start=1380, end=300)
        """
        parts = [_TIME.fullmatch(part.strip()) for part in re.split(r"[-–~]", text)]
        if len(parts) == 2 and parts[0] and parts[1]:
            start, end = (int(p[1]) * 60 + int(p[2]) for p in parts if p)
            minutes_fit = all(int(p[2]) < 60 for p in parts if p)
            if minutes_fit and start < _DAY and end <= _DAY and start != end:
                return cls(start, end)
        raise DreamError(f"hours={text!r} is no window: write it like '02:00-06:00' or '23:00-05:00'")

    def opened(self, now: float, zone: tzinfo | None = None) -> float | None:
        """When the window that `now` lies in opened, seconds since 1970; None outside of it.

        Args:
            now: Seconds since 1970.
            zone: Whose local time; None is this computer's.
        """
        local = datetime.fromtimestamp(now, zone).astimezone(zone)
        minute = local.hour * 60 + local.minute
        over_midnight = self.end < self.start
        inside = (
            minute >= self.start or minute < self.end if over_midnight else self.start <= minute < self.end
        )
        if not inside:
            return None
        day = local - timedelta(days=1) if over_midnight and minute < self.end else local
        naive = day.replace(
            hour=self.start // 60, minute=self.start % 60, second=0, microsecond=0, tzinfo=None
        )
        # Local again by its own day, or the hour that a change of summer time adds would be counted twice.
        return (naive.replace(tzinfo=zone) if zone else naive.astimezone()).timestamp()
