"""The answer of each API to clients with some rights: python -m tests.apis.authorization_recording records them.

A case is a request in one version, and the rights of its client. The handler behind the guard is a stand-in that
answers each element that reaches it, so that a case shows the work of the guard alone: the request that the handler
gets, the rights that it may check itself, the response, and the lines of the audit log. `CASE_FIELDS` names the
columns of the recording.

The rights of the cases come from the guard itself: each decision that it takes is granted alone, denied alone, and
granted and denied together with each other one in the newest version.
"""

import asyncio
import logging
import lzma
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, Final, NamedTuple, cast
from unittest.mock import patch

from coordinator.apis import authorization_rules
from coordinator.apis.api_authorization import ApiAuthorization
from coordinator.apis.request_task import RequestTasks
from coordinator.config.properties import Config, parse_config
from coordinator.core import clock, time_budget
from coordinator.core.reply import InternalReply, Reply
from coordinator.core.response_status import AWAITING_DISK, CLOSE_CONNECTION, DeferredResponse
from coordinator.core.time_budget import RunQueue
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.security.core.authorizer import (
    DEFAULT_ALLOW,
    DEFAULT_DENY,
    AclIndex,
    Authorizer,
    Decision,
)
from coordinator.security.core.principal import Principal
from coordinator.topics.catalogue import Catalogue
from protocol.apis import APIS, Api, ApiKey
from protocol.codec import decode, encode
from protocol.error_codes import ErrorCode
from protocol.error_response import ErrorLevel, build_error_response
from tests.apis.authorization_requests import (
    TOPIC_IDS,
    TOPICS,
    Variant,
    answer_elements,
    encode_request,
    list_variants,
)
from tests.network.requests import CLIENT

RECORDING: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "authorization.txt.xz")
CASE_FIELDS: Final = "api version variant granted handled rights response audit"
_MOST_PAIRED: Final = 14
"""Of more decisions, pairs are not recorded."""
_PROBED: Final = ("a", "b", "x")
"""The topics for which the stand-in checks the rights that it gets."""
_RIGHTS: Final = ("may_read", "may_describe", "may_delete", "may_create")
_ANY_TOPIC: Final = "WRITE any TOPIC"
_NOTHING: Final = "-"


class Case(NamedTuple):
    """One line of the recording."""

    api: str
    version: int
    variant: str
    granted: str
    """The rights of the client, or the rights that it lacks after "all but"."""
    handled: str
    """The request that the handler gets, in hexadecimal digits, if any of its elements is left."""
    rights: str
    """The further arguments of the handler."""
    response: str
    audit: str
    """The lines of the audit log: `+` for an allowed operation, `-` for a denied one."""


class Rights:
    """The rights of the client of one case."""

    def __init__(self, text: str) -> None:
        """Parse the text of `Case.granted`."""
        self._is_negative = text.startswith("all but")
        self.named = set(text.removeprefix("all but").strip().split("; ")) - {""}

    def allows(self, right: str) -> bool:
        """Whether the client has a right."""
        return (right in self.named) != self._is_negative


class RecordingAuthorizer(Authorizer):
    """Decides by the rights of a case, and notes each decision that it takes."""

    def __init__(self, rights: Rights) -> None:
        super().__init__(AclIndex())
        self._rights = rights
        self.decided: dict[str, None] = {}

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> Decision:
        right = f"{operation.name} {resource_type.name} {resource_name}"
        self.decided[right] = None
        return DEFAULT_ALLOW if self._rights.allows(right) else DEFAULT_DENY

    def may_write_any_topic(self, principal: Principal, host: str) -> bool:
        self.decided[_ANY_TOPIC] = None
        return self._rights.allows(_ANY_TOPIC)


class _StandInTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: tuple[int, ...] = (0, 1)


class StandInCatalogue:
    """Has the topics a and b."""

    def __init__(self) -> None:
        self._topics = [_StandInTopic(name, TOPIC_IDS[name]) for name in TOPICS]

    def __iter__(self) -> Iterator[_StandInTopic]:
        return iter(self._topics)

    def find_topic(self, name: str) -> _StandInTopic | None:
        return next((topic for topic in self._topics if topic.name == name), None)

    def find_topic_by_id(self, topic_id: bytes) -> _StandInTopic | None:
        return next((topic for topic in self._topics if topic.topic_id == topic_id), None)


class AuditLines(logging.Handler):
    """Collects the lines of the audit log in a short form."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments = cast("tuple[object, ...]", record.args)
        sign = "+" if record.levelno == logging.DEBUG else "-"
        self.lines.append(f"{sign}{arguments[1]} {arguments[3]}")


class _RecordedReply(InternalReply, kw_only=True):
    """The reply of a case, which may be closed."""

    on_close: Callable[[], None]

    def close_connection(self) -> None:
        self.on_close()


class StandInHandler:
    """Answers the elements that reach it. It notes the request and the further arguments."""

    def __init__(self, variant: Variant, elements: int, *, defers: bool) -> None:
        """Create a handler for a request with `elements` elements. `defers` delays the response."""
        self._variant = variant
        self._elements = elements
        self._defers = defers
        self.handled = _NOTHING
        self.rights = _NOTHING

    def _is_any_left(self, request: Any) -> bool:
        return not self._elements or count_elements(request) > 0

    def handle(self, request: Any, context: RequestContext, *arguments: Any) -> object:
        """Answer a request at once, or later."""
        version, api_key = context.api_version, context.encoder.api.key
        self.handled = encode(request, version).hex() if self._is_any_left(request) else _NOTHING
        self.rights = "; ".join(map(_probe_argument, arguments)) or _NOTHING
        if self._variant.handler_error is not None:
            response = build_error_response(request, version, self._variant.handler_error)
        else:
            response = build_error_response(request, version, ErrorCode.NONE, level=ErrorLevel.EVERY)
            response = answer_elements(api_key, request, version, response)
        if not self._defers:
            return response
        reply = context.defer(False)
        asyncio.get_running_loop().call_soon(reply.send, response)
        return AWAITING_DISK


def count_elements(message: Any) -> int:
    """Return how many elements the arrays of a request have."""
    values = [getattr(message, name) for name in message.__struct_fields__]
    return sum(len(value) for value in values if isinstance(value, list))


def _probe_argument(argument: Any) -> str:
    if callable(argument):
        return " ".join(f"{name}={argument(name)}" for name in _PROBED)
    found = []
    for right in _RIGHTS:
        may = getattr(argument, right)
        if may is not None:
            found += [f"{right}:{name}={may(name)}" for name in _PROBED]
    return " ".join(found)


@cache
def _parse_properties(*properties: tuple[str, str]) -> Config:
    return parse_config(dict(properties))


async def play_case(
    api: Api, version: int, variant: Variant, granted: str, *, in_steps: bool
) -> tuple[Case, Collection[str]]:
    """Play one case.

    Args:
        granted: the rights of the client, as in `Case.granted`.
        in_steps: whether the guard waits after each element, and the handler answers later.

    Returns:
        the case, and the rights on which the guard decided.
    """
    loop = asyncio.get_running_loop()
    authorizer = RecordingAuthorizer(Rights(granted))
    catalogue = cast("Catalogue", StandInCatalogue())
    authorization = ApiAuthorization(authorizer, catalogue, _parse_properties(*variant.properties.items()))
    request = decode(api.request, version, encode_request(api, version, variant))
    handler = StandInHandler(variant, count_elements(request), defers=in_steps)
    tasks = RequestTasks(RunQueue(loop), clock.Arrival())
    guarded = authorization.guard_handlers({api.key: handler.handle}, tasks)[api.key]
    answered: asyncio.Future[Any] = loop.create_future()
    closed: list[object] = []

    def open_reply(_: bool) -> Reply:
        return _RecordedReply(
            on_response=answered.set_result,
            on_failure=answered.set_exception,
            on_close=lambda: closed.append(CLOSE_CONNECTION),
        )

    encoder = ResponseEncoder(api, version, ApiCounts())
    context = RequestContext(CLIENT, encoder, 1, None, version, open_reply=open_reply)
    audit = AuditLines()
    log = logging.getLogger("kafka.authorizer.logger")
    log.addHandler(audit)
    try:
        with (
            patch.object(time_budget, "SLICE_NS", -1 if in_steps else 1 << 62),
            patch.object(authorization_rules, "ELEMENTS_PER_STEP", 1 if in_steps else 1 << 30),
        ):
            response = guarded(request, context)
            if isinstance(response, DeferredResponse):
                response = await asyncio.wait_for(answered, 60)
    finally:
        log.removeHandler(audit)
    is_closed = closed or response is CLOSE_CONNECTION
    case = Case(
        api.name,
        version,
        variant.name,
        granted,
        handler.handled,
        handler.rights,
        "closed" if is_closed else encode(response, version).hex(),
        "; ".join(audit.lines) or _NOTHING,
    )
    return case, authorizer.decided


async def record_api(api: Api) -> list[Case]:
    """Play all cases of an API in each of its versions."""
    cases: list[Case] = []
    for version in range(api.versions.first, api.versions.last + 1):
        for variant in list_variants(api, version):
            cases += await _record_variant(api, version, variant)
    return cases


async def _record_variant(api: Api, version: int, variant: Variant) -> list[Case]:
    """Play a request with no right, all rights, and the rights that follow from the decisions of its guard."""
    cases: dict[str, Case] = {}
    decided: dict[str, None] = {}

    async def play(granted: str) -> None:
        if granted not in cases:
            cases[granted], found = await play_case(api, version, variant, granted, in_steps=False)
            decided.update(dict.fromkeys(found))

    await play("")
    await play("all but")
    known = 0
    while known < len(decided):
        known = len(decided)
        for right in list(decided):
            await play(right)
            await play(f"all but {right}")
    if version == api.versions.last and variant.handler_error is None and len(decided) <= _MOST_PAIRED:
        for pair in combinations(sorted(decided), 2):
            await play("; ".join(pair))
            await play(f"all but {'; '.join(pair)}")
    return list(cases.values())


def find_variant(api: Api, case: Case) -> Variant:
    """Return the variant of a recorded case."""
    return next(each for each in list_variants(api, case.version) if each.name == case.variant)


def read() -> Mapping[str, list[Case]]:
    """Read the recording. Return the cases by the name of their API."""
    cases: dict[str, list[Case]] = {}
    with lzma.open(RECORDING, "rt", encoding="utf-8") as lines:
        for line in lines:
            api, version, *fields = line.rstrip("\n").split("\t")
            cases.setdefault(api, []).append(Case(api, int(version), *fields))
    return cases


def _write(cases: Iterable[Case]) -> None:
    with lzma.open(RECORDING, "wt", preset=9 | lzma.PRESET_EXTREME, encoding="utf-8") as lines:
        for case in cases:
            lines.write("\t".join(map(str, case)) + "\n")


async def _record_all() -> list[Case]:
    logging.getLogger("kafka.authorizer.logger").setLevel(logging.DEBUG)
    return [case for key in ApiKey if key in APIS for case in await record_api(APIS[key])]


if __name__ == "__main__":
    _write(asyncio.run(_record_all()))
    print(f"{sum(map(len, read().values()))} cases, {os.path.getsize(RECORDING)} bytes")
