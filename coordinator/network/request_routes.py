"""Routes of requests: the decoder, the handler and the encoder of each version of an API.

A table finds a route by API key and version. A route is created when a client first uses its version. A
connection uses the table of its listener and caches repeated requests with the `epoch` of that table. A
component that needs every request of an API, such as fault injection, adds an interceptor to the API. The table
begins another epoch then: requests cached before are decoded again. The cache shows which members a connection
serves, and answers no request of an intercepted API.

Counts are since the start, latencies in nanoseconds. Source of the authentications: the metrics of Kafka's
`Selector` (KIP-188, KIP-368).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from coordinator.core.interceptors import InterceptorChain
from coordinator.network.repeated_requests import AnsweredRequest, CreateRepetition, Repetition
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from protocol.apis import APIS, Api, ApiKey
from protocol.codec import request_decoder
from protocol.primitives import DecodingBudget, Malformed, TooManyElements


class AuthenticationCounts:
    """Counts of SASL authentications of all listeners since the start. Keys are listener and mechanism; "" stands
    for an unknown one."""

    __slots__ = (
        "expired_connections",
        "failed",
        "failed_reauthentications",
        "reauthentications",
        "succeeded",
    )

    def __init__(self) -> None:
        self.succeeded: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.reauthentications: Counter[tuple[str, str]] = Counter()
        """Successful re-authentications."""
        self.failed_reauthentications: Counter[tuple[str, str]] = Counter()
        self.expired_connections = 0
        """Connections that were closed because a request arrived after the end of their session."""

    def copy(self) -> "AuthenticationCounts":
        """Return a copy of the counts."""
        return deepcopy(self)


Handler = Callable[[Any, RequestContext], object]
"""Takes a request and its context; returns the response, or one of `coordinator.core.response_status`."""

MAX_INLINE_ELEMENTS: Final = 2_000
"""The maximum number of elements, in all arrays together, of a request that is decoded on the event loop.
`large_messages.py` decodes larger ones in a thread, because decoding and answering them takes milliseconds."""


class Route(ResponseEncoder):
    """The decoder, handler and encoder of one version of an API. Created when a client first uses the version."""

    __slots__ = ("_decode_large", "create_repetition", "decode", "handle", "is_flexible")

    def __init__(
        self,
        api: Api,
        version: int,
        handle: Handler,
        counts: ApiCounts,
        create_repetition: CreateRepetition | None = None,
    ) -> None:
        super().__init__(api, version, counts)
        self.handle = handle
        self.create_repetition = create_repetition
        """Creates the repetition of an answered request. None: requests of the API are not cached."""
        self.is_flexible = version in api.flexible
        """Whether the request header ends with tagged fields."""
        budget = DecodingBudget(api.max_elements)
        if api.max_elements > MAX_INLINE_ELEMENTS:
            budget = DecodingBudget(MAX_INLINE_ELEMENTS, too_many_error=TooManyElements)
        self.decode = request_decoder(api.request, version, budget)
        """Decodes a request. Raises Malformed, or TooManyElements for a request that `decode_large` must decode."""
        self._decode_large: Callable[..., Any] | None = None

    def decode_large(self, frame: bytes, position: int) -> Any:
        """Decode a request without a limit of elements. Raises Malformed. Any thread may call it, one call at a
        time."""
        decode = self._decode_large
        if decode is None:
            decode = request_decoder(self.api.request, self.version, DecodingBudget(self.api.max_elements))
            self._decode_large = decode
        return decode(frame, position)


_VERSION_BITS: Final = 16
_SIGN: Final = 0x8000
FIRST_SERVED_VERSION: Final = {int(ApiKey.PRODUCE): 3}
"""The lowest served version of APIs that advertise a lower one (KAFKA-18659)."""

RefuseApiVersions = Callable[[int], bytes | bytearray]
"""Takes a correlation id and returns the frame of a response with the supported versions of ApiVersions."""


def create_counts() -> dict[int, ApiCounts]:
    """Return counters of requests for all advertised APIs."""
    return {key: ApiCounts() for key in APIS}


class Routes:
    """The handlers by api key, and the routes that are derived from them."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        repetitions: Mapping[int, CreateRepetition],
        refuse_api_versions: RefuseApiVersions,
        counts: Mapping[int, ApiCounts] | None = None,
    ) -> None:
        """Create routes.

        Args:
            handlers: A handler for each advertised API.
            repetitions: Functions that create the repetitions of answered requests, by api key.
            refuse_api_versions: Answers an unsupported version of ApiVersions.
            counts: Counters of requests by api key, which tables may share; default: new ones.
        """
        missing = set(APIS) ^ set(handlers)
        assert not missing, f"served and advertised differ: {sorted(missing)}"
        self._handlers = handlers
        self._repetitions = repetitions
        self._refuse_api_versions = refuse_api_versions
        self._interceptors: dict[int, InterceptorChain[Handler]] = {}
        self.by_version: dict[int, Route] = {}
        """Routes by api key << 16 | version. `find_route` adds missing ones."""
        self.epoch = object()
        """The identity of the current handlers. Each change of an interceptor replaces it."""
        self.counts = create_counts() if counts is None else counts

    def with_handlers(self, handlers: Mapping[int, Handler]) -> "Routes":
        """Return another table with other handlers for some APIs, which share the request counts.

        Repeated requests do not reach the other handlers: a `Repetition` is valid only as long as the catalogue has
        the same topics. The other table has no interceptors.
        """
        return Routes(
            {**self._handlers, **handlers}, self._repetitions, self._refuse_api_versions, self.counts
        )

    def get_interceptors(self, api_key: int) -> InterceptorChain[Handler]:
        """Return the interceptors of the requests of an API. They get every request, also a repeated one."""
        found = self._interceptors.get(api_key)
        if found is None:
            found = self._interceptors[api_key] = InterceptorChain(self._begin_epoch)
        return found

    @property
    def is_intercepted(self) -> bool:
        """Whether any API has an interceptor."""
        return any(self._interceptors.values())

    def _begin_epoch(self) -> None:
        self.by_version = {}
        self.epoch = object()

    def get_handler(self, api_key: int) -> Handler:
        """Return the handler of an API, behind its interceptors."""
        handler, interceptors = self._handlers[api_key], self._interceptors.get(api_key)
        return interceptors.compose(handler) if interceptors else handler

    def find_route(self, key_version: int) -> Route | None:
        """Return the route of a version and keep it in the table, or None for an unsupported version."""
        key, version = _split_key_version(key_version)
        api = APIS.get(key)
        if api is None or version not in api.versions or version < FIRST_SERVED_VERSION.get(key, version):
            return None
        create_repetition = self._repetitions.get(key)
        if create_repetition is not None and self._interceptors.get(key):
            create_repetition = _disable_repetition(create_repetition)
        route = Route(api, version, self.get_handler(key), self.counts[key], create_repetition)
        self.by_version[key_version] = route
        return route

    def refuse_version(self, key_version: int, correlation_id: int) -> bytes | bytearray:
        """Return the response to an unsupported version. Raises Malformed if the connection must close."""
        key, version = _split_key_version(key_version)
        if key == ApiKey.API_VERSIONS:
            return self._refuse_api_versions(correlation_id)
        api = APIS.get(key)
        if api is None:
            raise Malformed(f"api key {key} (version {version}) is not served")
        first = FIRST_SERVED_VERSION.get(key, api.versions.first)
        raise Malformed(
            f"{api.name} (api key {key}) version {version} is not supported, only {first} to {api.versions.last}"
        )


def _disable_repetition(create: CreateRepetition) -> CreateRepetition:
    """Return a function that creates repetitions which answer no request. Those of heartbeats are still cached,
    because they show the members of a connection; commits are not.
    """

    def create_disabled(answered: AnsweredRequest) -> Repetition | None:
        repetition = create(answered)
        if repetition is None or repetition.gaps:
            return None
        return repetition._replace(repeat=_repeat_never)

    return create_disabled


def _repeat_never(*_: object) -> None:
    """Answer no repetition."""


def _split_key_version(key_version: int) -> tuple[int, int]:
    key, version = key_version >> _VERSION_BITS, key_version & 0xFFFF
    return key - 2 * _SIGN if key & _SIGN else key, version - 2 * _SIGN if version & _SIGN else version
