"""Which handler answers which API, as one table: a request finds its route by api key and version in one step.

The table is filled as versions are first asked for; nothing is made at the start that no client needs. A connection
answers by the table of its listener, and remembers requests that come again just so together with the table's
`epoch`. Whoever must see every request gives the listener another table; what was remembered under the old one is
then decoded again, and what comes again under the new one tells for whom a connection speaks, and nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.net.api_counts import ApiCounts
from coordinator.net.caller import Caller
from coordinator.net.route import Handler, Repeat, Route
from protocol.apis import APIS, ApiKey
from protocol.malformed import Malformed

_VERSION_BITS: Final = 16
_SIGN: Final = 0x8000
ANSWERED_FROM: Final = {int(ApiKey.PRODUCE): 3}
"""Where the lowest version that is advertised is none that is answered (KAFKA-18659)."""

RefuseApiVersions = Callable[[int], bytes | bytearray]
"""Takes a correlation id; gives the frame that tells which versions of ApiVersions there are."""


class Routes:
    """Handlers by api key, and the routes made of them."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        repeat: Mapping[int, Repeat],
        refuse_api_versions: RefuseApiVersions,
    ) -> None:
        """In: one handler for each API that is advertised, no more and no less; who knows when a request of an API
        comes again just so; who answers an ApiVersions that is not served."""
        missing = set(APIS) ^ set(handlers)
        assert not missing, f"served and advertised differ: {sorted(missing)}"
        self._handlers = handlers
        self._repeat = repeat
        self._refuse_api_versions = refuse_api_versions
        self.by_version: dict[int, Route] = {}
        """By api key << 16 | version; `find` adds what is missing."""
        self.epoch: Final = object()
        """No other table has it."""
        self.counts = {key: ApiCounts() for key in handlers}

    def altered(self, handlers: Mapping[int, Handler]) -> "Routes":
        """Another table, with other handlers for some APIs: every request of theirs comes to them, also one that
        comes again just so. Both count what is answered together."""
        repeat = {
            key: _asked_each_time(repeat) if key in handlers else repeat
            for key, repeat in self._repeat.items()
        }
        routes = Routes({**self._handlers, **handlers}, repeat, self._refuse_api_versions)
        routes.counts = self.counts
        return routes

    def handler(self, api_key: int) -> Handler:
        """Who answers an API."""
        return self._handlers[api_key]

    def find(self, key_version: int) -> Route | None:
        """The route of a version, entered in the table; None when that version is not served."""
        key, version = _split(key_version)
        api = APIS.get(key)
        if api is None or version not in api.versions or version < ANSWERED_FROM.get(key, version):
            return None
        route = Route(api, version, self._handlers[key], self.counts[key], self._repeat.get(key))
        self.by_version[key_version] = route
        return route

    def refuse_version(self, key_version: int, correlation_id: int) -> bytes | bytearray:
        """The answer to a version that is not served. Raises Malformed where there is none but goodbye."""
        key, version = _split(key_version)
        if key == ApiKey.API_VERSIONS:
            return self._refuse_api_versions(correlation_id)
        api = APIS.get(key)
        if api is None:
            raise Malformed(f"api key {key} (version {version}) is not served")
        first = ANSWERED_FROM.get(key, api.versions.first)
        raise Malformed(
            f"{api.name} (api key {key}) has no version {version} here, only {first} to {api.versions.last}"
        )


def _asked_each_time(repeat: Repeat) -> Repeat:
    """Knows what comes again just so, and never answers it."""

    def repeat_in_vain(request: Any, response: Any, caller: Caller) -> Callable[[int], bool] | None:
        return None if repeat(request, response, caller) is None else _is_never_well

    return repeat_in_vain


def _is_never_well(_: int) -> bool:
    return False


def _split(key_version: int) -> tuple[int, int]:
    key, version = key_version >> _VERSION_BITS, key_version & 0xFFFF
    return key - 2 * _SIGN if key & _SIGN else key, version - 2 * _SIGN if version & _SIGN else version
