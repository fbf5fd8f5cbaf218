"""`python -m tests.hostile.attacks.faulty_daemon serve ...`: a monitored daemon with planted faults.

DescribeGroups  compares each name with each other one in one step of the loop
FindCoordinator  builds a large object for each key before it answers
DeleteGroups  keeps a large object for each name
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from coordinator.network.repeated_requests import CreateRepetition
from coordinator.network.request_context import ApiCounts, RequestContext
from coordinator.network.request_routes import Handler, Route
from protocol.apis import Api, ApiKey
from tests.hostile.attacks import loop_monitor

MODULE: Final = "tests.hostile.attacks.faulty_daemon"
OBJECT_BYTES: Final = 60_000
_kept: Final[list[bytes]] = []


def compare_all_names(request: Any) -> None:
    """Take time that grows with the square of the names."""
    groups = request.groups
    assert sum(name == other for name in groups for other in groups) >= len(groups)


def build_large_objects(request: Any) -> None:
    """Take memory that grows with the keys, and release it."""
    objects = [b"x" * OBJECT_BYTES for _ in request.coordinator_keys]
    assert len(objects) == len(request.coordinator_keys)


def keep_large_objects(request: Any) -> None:
    """Take memory that grows with the names, and keep it."""
    _kept.extend(b"x" * OBJECT_BYTES for _ in request.groups_names)


FAULTS: Final[Mapping[int, Callable[[Any], None]]] = {
    ApiKey.DESCRIBE_GROUPS: compare_all_names,
    ApiKey.FIND_COORDINATOR: build_large_objects,
    ApiKey.DELETE_GROUPS: keep_large_objects,
}


def _handle_with_fault(
    fault: Callable[[Any], None], handle: Handler, request: Any, context: RequestContext
) -> object:
    fault(request)
    return handle(request, context)


class _FaultyRoute(Route):
    """A route that calls the planted fault of its API before the handler."""

    __slots__ = ()

    def __init__(
        self,
        api: Api,
        version: int,
        handle: Handler,
        counts: ApiCounts,
        create_repetition: CreateRepetition | None = None,
    ) -> None:
        fault = FAULTS.get(api.key)
        faulty = handle if fault is None else partial(_handle_with_fault, fault, handle)
        super().__init__(api, version, faulty, counts, create_repetition)


def main() -> None:
    """Run groupd with a measured loop and the faults."""
    from coordinator.network import request_routes

    request_routes.Route = _FaultyRoute  # type: ignore[misc]
    loop_monitor.main()


if __name__ == "__main__":
    main()
