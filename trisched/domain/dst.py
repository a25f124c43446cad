"""Turns a cron expression's local times into instants, through the gaps and folds of a time zone.

A span is a stretch with one offset. Going from one span to the next, the wall clock jumps:

    gap    …01:59 │ 03:00…     local times between do not exist
    fold   …02:59 │ 02:00…     local times between come twice

Where the hours are named (``30 2 * * *``) the schedule means times of the day: in a gap it runs once, at the
gap's end, or not at all; in a fold in the first pass, the second, or both. Where they are not (``0 * * * *``,
``0 */2 * * *``) it means a rhythm, and each instant whose wall clock matches is a slot.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import attrs

from trisched.domain.cron_match import CronFields, next_local
from trisched.domain.zone import DAY, Span, local_time, span_at

Gap = Literal["next", "skip"]
Fold = Literal["first", "second", "both"]
#: No two neighbouring offsets differ by more.
_WIDEST_CHANGE = 2 * DAY
#: The calendar's last year is left out: beyond it no date can be named.
_END = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())


@attrs.frozen
class WallClock:
    """A time zone and what to do where its clock jumps."""

    zone: str
    gap: Gap
    fold: Fold


def next_instant(fields: CronFields, clock: WallClock, at: int) -> int | None:
    """The first slot that is not before ``at``, in seconds since the epoch; None when there is none."""
    while at < _END:
        span = span_at(clock.zone, at)
        if _moved_here(fields, clock, span, at) is not None:
            return at
        low, high = _window(span, clock.fold) if fields.fixed_hours else (at, span.end)
        local = next_local(fields, max(at, low) + span.offset)
        if local is None:
            return None
        found = local - span.offset
        if found < high:
            return found
        # No local time before ``found`` matches, so whole spans may be passed over; not so where a fold ends
        # this one: there the clock goes back to times before ``at``.
        at = span.end if span.after < span.offset else max(span.end, found - _WIDEST_CHANGE)
    return None


def _window(span: Span, fold: Fold) -> tuple[int, int]:
    """The part of ``span`` in which a local time counts, given that a fold shows some of them twice."""
    low, high = span.start, span.end
    if fold == "first" and span.before > span.offset:
        low += span.before - span.offset
    if fold == "second" and span.after < span.offset:
        high -= span.offset - span.after
    return low, high


def _moved_here(fields: CronFields, clock: WallClock, span: Span, at: int) -> int | None:
    """The first of the local times that run at ``at`` because the gap that ends there has swallowed them."""
    if at != span.start or clock.gap == "skip" or not fields.fixed_hours:
        return None
    return _missed_in_gap(fields, span)


def _missed_in_gap(fields: CronFields, span: Span) -> int | None:
    """The first matching local time in the gap before ``span``."""
    if span.before >= span.offset:
        return None
    local = next_local(fields, span.start + span.before)
    return local if local is not None and local < span.start + span.offset else None


def note_on(fields: CronFields, clock: WallClock, slot: int) -> str | None:
    """What a person should know about ``slot`` (seconds) when a gap or a fold has shaped it."""
    span = span_at(clock.zone, slot)
    missed = _moved_here(fields, clock, span, slot)
    if missed is not None:
        return f"{_missing(clock, missed)}; runs at {_clock_text(slot + span.offset)}"
    passes = _pass(span, slot)
    if passes is None:
        return None
    local = slot + span.offset
    twice = f"{_clock_text(local)} comes twice on {_date_text(local)} in {clock.zone}"
    if not fields.fixed_hours or clock.fold == "both":
        return f"{twice}; runs both times, this is the {passes}"
    return f"{twice}; runs the {passes} time only"


def note_on_skipped(fields: CronFields, clock: WallClock, gap_end: int) -> str | None:
    """What a person should know about a time left out: it fell into the gap that ended at ``gap_end``."""
    missed = _missed_in_gap(fields, span_at(clock.zone, gap_end))
    return None if missed is None else f"{_missing(clock, missed)}; skipped"


def _missing(clock: WallClock, local: int) -> str:
    return f"{_clock_text(local)} does not exist on {_date_text(local)} in {clock.zone}"


def _pass(span: Span, slot: int) -> str | None:
    """Which of the two passes through a fold ``slot`` is in."""
    if slot < span.start + span.before - span.offset:
        return "second"
    if slot >= span.end + span.after - span.offset and span.after < span.offset:
        return "first"
    return None


def _clock_text(local: int) -> str:
    moment = local_time("UTC", local)
    return moment.strftime("%H:%M:%S" if moment.second else "%H:%M")


def _date_text(local: int) -> str:
    return local_time("UTC", local).strftime("%Y-%m-%d")
