"""The action of a fault, checked and parsed. Impossible actions are refused when the fault is created."""

import errno
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from coordinator.control.faults.fault_matchers import (
    EMPTY_SUCCESS_APIS,
    ERROR_APIS,
    GROUP_APIS,
    PARTITION_ERROR_APIS,
    RECORD_WRITING_APIS,
    RequestMatcher,
    parse_error,
)
from coordinator.control.faults.fault_rule import (
    ACTION_KINDS,
    ACTIONS_BY_POINT,
    LOADING_PRESET,
    ActionSpec,
    Delay,
    DurationValue,
    FailoverSpans,
    FakeCoordinator,
    FaultPoint,
    FaultRule,
    NamePattern,
)
from coordinator.control.field_parsers import (
    compile_name_pattern,
    impossible_field_problem,
    invalid_field_problem,
    parse_duration_ms,
)
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import layout

LONGEST_DELAY_MS: Final = 600_000
MAX_TORN_BYTES: Final = 1 << 20
AT_REQUEST_POINTS: Final[frozenset[FaultPoint]] = frozenset({"request"})
AT_ANSWER_POINTS: Final[frozenset[FaultPoint]] = frozenset({"answer", "before_answer"})
DISK_POINTS: Final[frozenset[FaultPoint]] = frozenset(
    {"append", "sync", "before_append", "after_append", "after_sync"}
)


class FaultAction(Struct, frozen=True, kw_only=True):
    """An `ActionSpec`, checked and parsed. `kind` is the name of the field with the action. `keys` are the APIs
    that support it. `errors` has the error by API."""

    at: FaultPoint
    kind: str
    keys: frozenset[int] = frozenset()
    errors: dict[int, ErrorCode] = {}
    partitions: Callable[[str], bool] | None = None
    delay_ms: int = 0
    jitter_ms: int = 0
    throttle_ms: int = 0
    coordinator: FakeCoordinator | None = None
    fail_errno: int = 0
    torn_bytes: int = 0
    kills: bool = False
    not_coordinator_ms: int = 0
    loading_ms: int = 0
    to: int | None = None
    members: Sequence[str] = ()
    release: str = ""


def compile_action(rule: FaultRule, matcher: RequestMatcher | None) -> FaultAction:
    """Compile the action of a rule. `matcher`: None for a rule on events. Raises Problem: bad-request,
    not-possible."""
    do = rule.do
    if do is None:
        raise invalid_field_problem("/do", "a fault needs an action")
    at = do.at if matcher is not None else (do.at or "event")
    if at is None:
        raise invalid_field_problem(
            "/do/at",
            f"the point of the fault is missing. Use one of {', '.join(list(ACTIONS_BY_POINT)[:-1])}",
        )
    if (at == "event") is (matcher is not None):
        raise invalid_field_problem("/do/at", f'"{at}" goes with "{"on" if at == "event" else "match"}"')
    kind = _select_kind(do, at)
    if matcher is None:
        return _compile_event_action(do, kind)
    if matcher.awaits_answer and at not in AT_ANSWER_POINTS:
        raise impossible_field_problem(
            "/match/error", f"{at} is before the response, and only a response has an error"
        )
    _check_torn(do, at, kind)
    delay_ms, jitter_ms = _parse_delay(do)
    errors = _select_errors(do, matcher, rule.use) if kind == "error" else {}
    return FaultAction(
        at=at,
        kind=kind,
        keys=frozenset(errors) if kind == "error" else _select_apis(at, kind, matcher),
        errors=errors,
        partitions=_compile_partitions(do, matcher, kind),
        delay_ms=delay_ms,
        jitter_ms=jitter_ms,
        throttle_ms=_check_throttle_ms(do),
        coordinator=do.coordinator,
        fail_errno=0 if do.fail is None else getattr(errno, do.fail),
        torn_bytes=do.torn_bytes or 0,
        kills=do.crash == "process",
    )


def _select_kind(do: ActionSpec, at: FaultPoint) -> str:
    # 0 is a valid number and error, and counts as given.
    kinds = [kind for kind in ACTION_KINDS if (said := getattr(do, kind)) is not None and said is not False]
    if len(kinds) != 1:
        found = ", ".join(kinds) or "nothing"
        raise invalid_field_problem(
            "/do", f"it has {found}; exactly one of {', '.join(ACTIONS_BY_POINT[at])} is required"
        )
    if kinds[0] not in ACTIONS_BY_POINT[at]:
        raise impossible_field_problem(
            f"/do/{kinds[0]}",
            f"{kinds[0]} is not possible at {at}, where {', '.join(ACTIONS_BY_POINT[at])} is",
        )
    return kinds[0]


def _check_torn(do: ActionSpec, at: FaultPoint, kind: str) -> None:
    if do.torn_bytes is None:
        return
    tears = (kind == "fail" and at == "append") or (do.crash == "process" and at == "before_append")
    if not tears:
        raise impossible_field_problem(
            "/do/torn_bytes",
            "torn_bytes needs a failed append or a crash before an append",
        )
    if not 0 < do.torn_bytes <= MAX_TORN_BYTES:
        raise invalid_field_problem(
            "/do/torn_bytes", f"{do.torn_bytes} is not between 1 and {MAX_TORN_BYTES}"
        )


def _parse_delay(do: ActionSpec) -> tuple[int, int]:
    delay = do.delay
    if delay is None:
        return 0, 0
    ms, jitter_ms = (delay.ms, delay.jitter_ms) if isinstance(delay, Delay) else (delay, 0)
    ms = parse_duration_ms(ms, "do.delay")
    if not 0 <= ms + jitter_ms <= LONGEST_DELAY_MS or jitter_ms < 0:
        raise invalid_field_problem("/do/delay", "a delay must be at most 10 minutes")
    return ms, jitter_ms


def _select_errors(do: ActionSpec, matcher: RequestMatcher, use: str | None) -> dict[int, ErrorCode]:
    # Imported with the first rule: the module needs the messages of all group APIs, which an idle daemon does
    # not.
    from coordinator.control.faults.error_answers import find_loading_error

    assert do.error is not None
    error = parse_error(do.error)
    room = {key for key in matcher.keys if key in ERROR_APIS}
    if do.partitions is not None:
        room = {key for key in room if key in PARTITION_ERROR_APIS}
        if not room:
            raise impossible_field_problem(
                "/do/partitions", f"the response of {_format_apis(matcher)} has no partition errors"
            )
    if not room:
        raise impossible_field_problem(
            "/do/error", f"{_format_apis(matcher)} has no field for an injected error"
        )
    if error is ErrorCode.NONE:
        room = {key for key in room if key in EMPTY_SUCCESS_APIS}
        if not room:
            names = ", ".join(sorted(APIS[key].name for key in EMPTY_SUCCESS_APIS))
            raise impossible_field_problem("/do/error", f"NONE is a complete response only for {names}")
    if use == LOADING_PRESET:
        return {key: find_loading_error(key) for key in room}
    return dict.fromkeys(room, error)


def _compile_partitions(do: ActionSpec, matcher: RequestMatcher, kind: str) -> Callable[[str], bool] | None:
    if do.partitions is None:
        return None
    if kind != "error":
        raise impossible_field_problem("/do/partitions", "partitions needs error")
    return compile_name_pattern(do.partitions, "/do/partitions")


def _check_throttle_ms(do: ActionSpec) -> int:
    if do.throttle_ms is None:
        return 0
    if not 0 <= do.throttle_ms < 2**31:
        raise invalid_field_problem("/do/throttle_ms", f"{do.throttle_ms} is not between 0 and {2**31 - 1}")
    return do.throttle_ms


def _select_apis(at: FaultPoint, kind: str, matcher: RequestMatcher) -> frozenset[int]:
    """Return the APIs on which a rule can act. Raises Problem (not-possible) without any."""
    keys = matcher.keys
    if kind == "throttle_ms":
        keys = frozenset(key for key in keys if can_throttle(key, APIS[key].versions.last))
        why = f"The answer of {_format_apis(matcher)} has no throttle time"
    elif kind == "coordinator":
        keys &= {ApiKey.FIND_COORDINATOR}
        why = "coordinator is only possible for FindCoordinator"
    elif at in DISK_POINTS:
        keys &= RECORD_WRITING_APIS
        why = f"{_format_apis(matcher)} writes no record, so {at} is never reached"
    elif kind == "crash":
        keys &= GROUP_APIS
        why = f"{_format_apis(matcher)} has no group, so no group partition can crash at its response"
    else:
        return keys
    if not keys:
        raise impossible_field_problem("/match/api", why)
    return keys


def can_throttle(key: int, version: int) -> bool:
    """Return whether a response has a throttle time in this version."""
    return any(field.name == "throttle_time_ms" for field in layout(APIS[key].response, version))


def _compile_event_action(do: ActionSpec, kind: str) -> FaultAction:
    spans = do.failover if isinstance(do.failover, FailoverSpans) else FailoverSpans()
    named: NamePattern = (do.disconnect if kind == "disconnect" else do.expire) or []
    members = [named] if isinstance(named, str) else named
    if kind in ("disconnect", "expire") and not members:
        raise invalid_field_problem(f"/do/{kind}", "it must name at least one member")
    return FaultAction(
        at="event",
        kind=kind,
        not_coordinator_ms=_parse_span_ms(spans.not_coordinator, "not_coordinator"),
        loading_ms=_parse_span_ms(spans.loading, "loading"),
        to=spans.to,
        members=members,
        release=do.release or "",
    )


def _parse_span_ms(span: DurationValue, field: str) -> int:
    ms = parse_duration_ms(span, f"do.failover.{field}")
    if ms > LONGEST_DELAY_MS:
        raise invalid_field_problem(f"/do/failover/{field}", "it must be at most 10 minutes")
    return ms


def _format_apis(matcher: RequestMatcher) -> str:
    names = sorted(APIS[key].name for key in matcher.keys)
    return names[0] if len(names) == 1 else f"Any of {', '.join(names[:5])}"
