"""Whether a server cuts prompts without a word: the answers are full, and its reports stand still (M17).

A report under the count proves nothing by itself. Relays leave out what a cache gave or the half of a
stream, send one number for every request, or count by a tokenizer of their own; and part of what is counted
may never be charged. So four things must come together, in this order:

1. the reports have come up to the count and grown with it, at least three times and by 1,000 tokens in all;
2. then, three times in a row, a report is under three quarters of what that growth foretells;
3. none has ever fallen back while the count grew: a server that cuts still fills its window, one that leaves
   something out falls back;
4. in those three the count has grown by a quarter of the window that shows, and the reports by nothing.

A server that leaves all new content out of its reports, request after request, would still be taken for one
that cuts. Hence what is learned here is never kept: it holds for the process, and for a day at the most.
"""

from typing import NamedTuple

from headwater.window.calibration import LEAST, MOST

POINTS, GROWN = 3, 1_000
"""Reports that have grown with the count, and counted tokens that they have followed in all, at the least."""
WHOLE = 0.7
"""Reported ÷ counted tokens under which a report is no right one, however it has grown: no tokenizer in use
counts so much less, and what is new in a request may grow with it for a while."""
SHORT = 0.75
"""Reported ÷ foretold tokens under which a report is short."""
FALLEN, STILL = 0.9, 0.95
"""Share of the largest right report under which one has fallen back, and of the first of a row under which
it does not stand still: a server that cuts whole messages fills its window up to one message only."""
ROW = 3
BEYOND = 0.25
"""Counted tokens that must have been added meanwhile, as a share of what was reported."""
CREEP = 0.05
"""Share of what was added by which a report that stands still may yet grow."""


class Reports(NamedTuple):
    """What the reports of one model in one session have shown so far.

    Attributes:
        model: "model@endpoint"; "" before anything was reported.
        revision: The frame's revision of the newest request: another one means that the window has moved.
        counted, reported: The newest request, in tokens.
        points, grown: Reports that have grown with the count, and the counted tokens that they followed.
        right_counted, right_reported: The largest of them, in tokens.
        row: Short reports in a row.
        row_counted, row_reported: The first of that row, in tokens.
    """

    model: str = ""
    revision: str = ""
    counted: int = 0
    reported: int = 0
    points: int = 0
    grown: int = 0
    right_counted: int = 0
    right_reported: int = 0
    row: int = 0
    row_counted: int = 0
    row_reported: int = 0

    @property
    def expected(self) -> int:
        """Tokens that the newest request should have been charged, by the largest report that was right."""
        ratio = min(1.0, self.right_reported / max(1, self.right_counted))
        return int(self.right_reported + ratio * (self.counted - self.right_counted))


def hear(reports: Reports, counted: int, reported: int, *, model: str, revision: str = "") -> Reports:
    """Take in one report; pure.

    Args:
        reports: What there was before.
        counted: Tokens of the answered request by our count, tool schemas included.
        reported: Input tokens that were charged, with what a cache gave wherever that is said.
        model: "model@endpoint".
        revision: The frame's revision of the request.
    """
    if reported <= 0:
        return reports
    before = reports if reports.model == model else Reports()
    now = before._replace(model=model, revision=revision, counted=counted, reported=reported)
    if not before.reported:
        return now
    short = reported < SHORT * now.expected
    if (short or counted >= before.right_counted) and reported < FALLEN * before.right_reported:
        # It has fallen back: what it reports is no measure of what it was sent.
        return Reports(model, revision, counted, reported)
    stays = before.revision == revision
    if short and before.points >= POINTS and before.grown >= GROWN:
        return _short(now, stays)
    now = now._replace(row=0)
    came, cost = counted - before.counted, reported - before.reported
    if not stays or came <= 0 or not LEAST * came <= cost <= MOST * came or reported < WHOLE * counted:
        return now
    now = now._replace(points=before.points + 1, grown=before.grown + came)
    if reported > before.right_reported:
        now = now._replace(right_counted=counted, right_reported=reported)
    return now


def cut_at(reports: Reports) -> int | None:
    """The window in tokens to which prompts are cut, by all that has been reported; None where nothing is."""
    if reports.row < ROW or reports.counted - reports.row_counted < BEYOND * reports.row_reported:
        return None
    return max(reports.row_reported, reports.right_reported)


def _short(now: Reports, stays: bool) -> Reports:
    """One more short report: of the same row where it has not grown with the count."""
    creep = now.reported - now.row_reported
    still = STILL * now.row_reported <= now.reported and creep <= CREEP * (now.counted - now.row_counted)
    if stays and now.row and still:
        return now._replace(row=now.row + 1)
    return now._replace(row=1, row_counted=now.counted, row_reported=now.reported)
