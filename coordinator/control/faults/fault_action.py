"""What a rule does, made ready; what no rule can do is said when it is made."""

import errno
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from coordinator.control.duration import duration_ms
from coordinator.control.faults.kinds import KINDS, POSSIBLE
from coordinator.control.faults.matcher import Matcher, error_of
from coordinator.control.faults.patterns import impossible, names_pattern, wrong
from coordinator.control.faults.ready_made import LOADING
from coordinator.control.faults.rule import (
    At,
    Delay,
    Do,
    Duration,
    FailoverSpans,
    FaultRule,
    Text,
    ToldCoordinator,
)
from coordinator.control.faults.scope import (
    OF_GROUPS,
    WITH_EMPTY_SUCCESS,
    WITH_ERRORS,
    WITH_PARTITIONS,
    WRITING,
)
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.schema import layout

LONGEST_DELAY_MS: Final = 600_000
MOST_BYTES: Final = 1 << 20
AT_REQUEST_POINTS: Final[frozenset[At]] = frozenset({"request"})
AT_ANSWER_POINTS: Final[frozenset[At]] = frozenset({"answer", "before_answer"})
DISK_POINTS: Final[frozenset[At]] = frozenset(
    {"append", "sync", "before_append", "after_append", "after_sync"}
)


class Action(Struct, frozen=True, kw_only=True):
    """See `Do`. `kind` is the field that says what is done; `keys` are the APIs where it can be done, `errors` by
    API."""

    at: At
    kind: str
    keys: frozenset[int] = frozenset()
    errors: dict[int, ErrorCode] = {}
    partitions: Callable[[str], bool] | None = None
    delay_ms: int = 0
    jitter_ms: int = 0
    throttle_ms: int = 0
    coordinator: ToldCoordinator | None = None
    fail_errno: int = 0
    torn_bytes: int = 0
    kills: bool = False
    not_coordinator_ms: int = 0
    loading_ms: int = 0
    to: int | None = None
    members: Sequence[str] = ()
    release: str = ""


def action_of(rule: FaultRule, matcher: Matcher | None) -> Action:
    """What a rule does. `matcher`: None for one that acts on an event. Raises Problem: bad-request,
    not-possible."""
    do = rule.do
    if do is None:
        raise wrong("/do", "a fault has to do something")
    at = do.at if matcher is not None else (do.at or "event")
    if at is None:
        raise wrong("/do/at", f"where does it act? There are {', '.join(list(POSSIBLE)[:-1])}")
    if (at == "event") is (matcher is not None):
        raise wrong("/do/at", f'"{at}" goes with "{"on" if at == "event" else "match"}"')
    kind = _kind(do, at)
    if matcher is None:
        return _on_event(do, kind)
    if matcher.awaits_answer and at not in AT_ANSWER_POINTS:
        raise impossible("/match/error", f"no answer is there yet at {at}: only an answer has an error")
    _check_torn(do, at, kind)
    delay_ms, jitter_ms = _delay(do)
    errors = _errors(do, matcher, rule.use) if kind == "error" else {}
    return Action(
        at=at,
        kind=kind,
        keys=frozenset(errors) if kind == "error" else _keys(at, kind, matcher),
        errors=errors,
        partitions=_partitions(do, matcher, kind),
        delay_ms=delay_ms,
        jitter_ms=jitter_ms,
        throttle_ms=_throttle_ms(do),
        coordinator=do.coordinator,
        fail_errno=0 if do.fail is None else getattr(errno, do.fail),
        torn_bytes=do.torn_bytes or 0,
        kills=do.crash == "process",
    )


def _kind(do: Do, at: At) -> str:
    # 0 is a number and an error, and none of them says nothing.
    kinds = [kind for kind in KINDS if (said := getattr(do, kind)) is not None and said is not False]
    if len(kinds) != 1:
        found = ", ".join(kinds) or "nothing"
        raise wrong("/do", f"it does {found}; one of {', '.join(POSSIBLE[at])} is what it has to do")
    if kinds[0] not in POSSIBLE[at]:
        raise impossible(
            f"/do/{kinds[0]}", f"{kinds[0]} is not possible at {at}, where {', '.join(POSSIBLE[at])} is"
        )
    return kinds[0]


def _check_torn(do: Do, at: At, kind: str) -> None:
    if do.torn_bytes is None:
        return
    tears = (kind == "fail" and at == "append") or (do.crash == "process" and at == "before_append")
    if not tears:
        raise impossible(
            "/do/torn_bytes",
            "Bytes are torn by an append that fails, or by the end of the process before one",
        )
    if not 0 < do.torn_bytes <= MOST_BYTES:
        raise wrong("/do/torn_bytes", f"{do.torn_bytes} is not between 1 and {MOST_BYTES}")


def _delay(do: Do) -> tuple[int, int]:
    delay = do.delay
    if delay is None:
        return 0, 0
    ms, jitter_ms = (delay.ms, delay.jitter_ms) if isinstance(delay, Delay) else (delay, 0)
    ms = duration_ms(ms, "do.delay")
    if not 0 <= ms + jitter_ms <= LONGEST_DELAY_MS or jitter_ms < 0:
        raise wrong("/do/delay", "a delay lasts 10 minutes at most")
    return ms, jitter_ms


def _errors(do: Do, matcher: Matcher, use: str | None) -> dict[int, ErrorCode]:
    # Imported when a rule is made: it knows the messages of all APIs of groups, which a daemon at rest does not.
    from coordinator.control.faults.error_answers import loading_error

    assert do.error is not None
    error = error_of(do.error)
    room = {key for key in matcher.keys if key in WITH_ERRORS}
    if do.partitions is not None:
        room = {key for key in room if key in WITH_PARTITIONS}
        if not room:
            raise impossible("/do/partitions", f"{_names(matcher)} says no error of a partition")
    if not room:
        raise impossible("/do/error", f"{_names(matcher)} has no place where a fault can put an error")
    if error is ErrorCode.NONE:
        room = {key for key in room if key in WITH_EMPTY_SUCCESS}
        if not room:
            names = ", ".join(sorted(APIS[key].name for key in WITH_EMPTY_SUCCESS))
            raise impossible("/do/error", f"NONE says all only in the answers of {names}")
    if use == LOADING:
        return {key: loading_error(key) for key in room}
    return dict.fromkeys(room, error)


def _partitions(do: Do, matcher: Matcher, kind: str) -> Callable[[str], bool] | None:
    if do.partitions is None:
        return None
    if kind != "error":
        raise impossible("/do/partitions", "Only an error can be that of some partitions")
    return names_pattern(do.partitions, "/do/partitions")


def _throttle_ms(do: Do) -> int:
    if do.throttle_ms is None:
        return 0
    if not 0 <= do.throttle_ms < 2**31:
        raise wrong("/do/throttle_ms", f"{do.throttle_ms} is not between 0 and {2**31 - 1}")
    return do.throttle_ms


def _keys(at: At, kind: str, matcher: Matcher) -> frozenset[int]:
    """Where a rule can act at all. Raises Problem (not-possible) where that is nowhere."""
    keys = matcher.keys
    if kind == "throttle_ms":
        keys = frozenset(key for key in keys if can_throttle(key, APIS[key].versions.last))
        why = f"The answer of {_names(matcher)} has no throttle time"
    elif kind == "coordinator":
        keys &= {ApiKey.FIND_COORDINATOR}
        why = "Only FindCoordinator names a coordinator"
    elif at in DISK_POINTS:
        keys &= WRITING
        why = f"Nothing is written for {_names(matcher)}: {at} is never reached"
    elif kind == "crash":
        keys &= OF_GROUPS
        why = f"{_names(matcher)} is about no group, so that no partition of groups can crash at its answer"
    else:
        return keys
    if not keys:
        raise impossible("/match/api", why)
    return keys


def can_throttle(key: int, version: int) -> bool:
    """Whether an answer has room for a throttle time."""
    return any(field.name == "throttle_time_ms" for field in layout(APIS[key].response, version))


def _on_event(do: Do, kind: str) -> Action:
    spans = do.failover if isinstance(do.failover, FailoverSpans) else FailoverSpans()
    named: Text = (do.disconnect if kind == "disconnect" else do.expire) or []
    members = [named] if isinstance(named, str) else named
    if kind in ("disconnect", "expire") and not members:
        raise wrong(f"/do/{kind}", "whom? It names members")
    return Action(
        at="event",
        kind=kind,
        not_coordinator_ms=_span_ms(spans.not_coordinator, "not_coordinator"),
        loading_ms=_span_ms(spans.loading, "loading"),
        to=spans.to,
        members=members,
        release=do.release or "",
    )


def _span_ms(span: Duration, field: str) -> int:
    ms = duration_ms(span, f"do.failover.{field}")
    if ms > LONGEST_DELAY_MS:
        raise wrong(f"/do/failover/{field}", "it lasts 10 minutes at most")
    return ms


def _names(matcher: Matcher) -> str:
    names = sorted(APIS[key].name for key in matcher.keys)
    return names[0] if len(names) == 1 else f"Any of {', '.join(names[:5])}"
