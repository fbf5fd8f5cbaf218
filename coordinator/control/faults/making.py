"""A fault, made of a rule: what no rule can say, and what could never act, is said now."""

from collections.abc import Container
from typing import Final

from msgspec import structs

from coordinator.control.duration import duration_ms
from coordinator.control.faults.action import DISK_POINTS, action_of
from coordinator.control.faults.event_matcher import EventMatcher
from coordinator.control.faults.fault import Fault
from coordinator.control.faults.matcher import Matcher
from coordinator.control.faults.patterns import impossible, wrong
from coordinator.control.faults.ready_made import filled_in
from coordinator.control.faults.rule import FaultRule, Match, OnEvent
from coordinator.names import LogFlush

_FILTERS: Final = {
    "match": Match.__struct_fields__,
    "on": tuple(name for name in OnEvent.__struct_fields__ if name != "event"),
    "do": ("partitions",),
}
"""The fields of a rule's parts that restrict what the fault is about."""


def made(name: str, rule: FaultRule, by: str | None, flush: LogFlush, brokers: Container[int]) -> Fault:
    """A fault that has met nothing yet. In: when logs are synced; the ids of all brokers, also those that are
    stopped. Raises Problem (bad-request, not-possible)."""
    rule = structs.replace(filled_in(_without_empty_lists(rule)), name=name)
    _check_counts(rule)
    if rule.on is not None and rule.match is not None:
        raise wrong("/on", "a fault has match or on, not both")
    if rule.on is not None:
        action = action_of(rule, None)
        if action.to is not None and action.to not in brokers:
            raise impossible("/do/failover/to", f"There is no broker {action.to}")
        return Fault(name, rule, None, EventMatcher(rule.on), action, by)
    matcher = Matcher(rule.match or Match())
    action = action_of(rule, matcher)
    if action.at in DISK_POINTS and action.at in ("sync", "after_sync") and flush is not LogFlush.ALWAYS:
        raise impossible("/do/at", f"No answer waits for a sync here (log.flush={flush.value})")
    return Fault(name, rule, matcher, None, action, by)


def _without_empty_lists(rule: FaultRule) -> FaultRule:
    """Return the rule with null in place of each empty list that restricts nothing."""
    for field, filters in _FILTERS.items():
        part = getattr(rule, field)
        if part is not None:
            empty = {name: None for name in filters if getattr(part, name) == []}
            rule = structs.replace(rule, **{field: structs.replace(part, **empty)})
    return rule


def _check_counts(rule: FaultRule) -> None:
    if rule.skip < 0:
        raise wrong("/skip", "it is a number of matches, at least 0")
    if isinstance(rule.times, int) and rule.times < 1:
        raise wrong("/times", "it is at least 1, or null for a standing fault")
    if not 0 < rule.probability <= 1:
        raise wrong("/probability", "it is above 0, and at most 1")
    if rule.for_ is not None and not duration_ms(rule.for_, "for"):
        raise wrong("/for", "a fault that is over at once never acts")
