"""API routes for namespaces: brokers beside the daemon's own. Each other route also exists for each namespace,
below the path of the namespace (`api_service.py`)."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, parse_address
from coordinator.control.control_plane import ControlPlane
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.namespaces.namespace_models import (
    NamespaceDescription,
    describe_namespace,
    format_namespace,
    format_namespaces,
)
from coordinator.control.namespaces.namespace_registry import (
    DEFAULT_NAMESPACE,
    MAX_NAMESPACES,
    NamespaceRegistry,
)
from coordinator.control.problem import ProblemKind
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_messages import bad_request
from coordinator.http.api.api_route import ApiCall, ApiRoute


@wire_name("NewNamespace")
class NewNamespace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new broker. `name`: by default groupd creates one. `topics` has the number of partitions of each topic.
    `config` are properties, as in a properties file. `durable`: the files are on the disk, beside the data
    directory. They stay when the daemon stops, for the next namespace with this name."""

    name: str | None = None
    topics: dict[str, Annotated[int, Meta(ge=1, le=2**31 - 1)]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    durable: bool = False


@wire_name("NamespaceList")
class NamespaceList(Struct, frozen=True, kw_only=True):
    """All namespaces, the daemon's own broker first. `most` is the maximum number of further ones."""

    namespaces: list[NamespaceDescription]
    most: int


def _get_namespaces(control: ControlPlane) -> NamespaceRegistry:
    assert isinstance(control, DaemonControlPlane), "a namespace has no routes of the process"
    return control.namespaces


async def list_namespaces(control: ControlPlane, call: ApiCall) -> NamespaceList:
    names = [DEFAULT_NAMESPACE, *(namespace.name for namespace in _get_namespaces(control).list_namespaces())]
    return NamespaceList(
        namespaces=[_describe_named(control, name, call) for name in names], most=MAX_NAMESPACES
    )


async def show_namespace(control: ControlPlane, call: ApiCall) -> NamespaceDescription:
    return _describe_named(control, call.path["namespace"], call)


async def create_namespace(control: ControlPlane, call: ApiCall) -> NamespaceDescription:
    """Create a namespace, and return it when its broker is ready."""
    new: NewNamespace = call.body
    created = await _get_namespaces(control).create_namespace(
        new.name, new.topics, new.config, is_durable=new.durable, by=call.actor
    )
    return _describe_named(control, created.name, call)


async def reset_namespace(control: ControlPlane, call: ApiCall) -> NamespaceDescription:
    """Reset a namespace to its state after its creation."""
    reset = await _get_namespaces(control).reset_namespace(call.path["namespace"], call.actor)
    return _describe_named(control, reset.name, call)


async def remove_namespace(control: ControlPlane, call: ApiCall) -> None:
    """Stop the broker of a namespace and delete its files."""
    await _get_namespaces(control).remove_namespace(call.path["namespace"], call.actor)


async def advertise_addresses(control: ControlPlane, call: ApiCall) -> NamespaceDescription:
    """Set the advertised addresses of a broker."""
    wanted: dict[str, str] = call.body
    name = call.path["namespace"]
    addresses = {listener: _parse_address(listener, text) for listener, text in wanted.items()}
    _get_namespaces(control).advertise(name, addresses, call.actor)
    return _describe_named(control, name, call)


def _parse_address(listener: str, text: str) -> Address:
    pointer = f"/{printable(listener)}"
    try:
        address = parse_address(text, printable(listener))
    except ConfigError as error:
        raise bad_request(pointer, "The address is invalid", f"{error}.") from error
    if not address.port or address.is_wildcard:
        detail = f"{printable(text)} is not an address that clients can connect to: use HOST:PORT."
        raise bad_request(pointer, "The address is invalid", detail)
    return address


def _describe_named(control: ControlPlane, name: str, call: ApiCall) -> NamespaceDescription:
    if name == DEFAULT_NAMESPACE:
        return describe_namespace(DEFAULT_NAMESPACE, control.services, None, call.host)
    namespace = _get_namespaces(control).get_namespace(name)
    return describe_namespace(name, namespace.server, namespace.created_ms, call.host)


_NAMED_PROBLEMS: Final = (ProblemKind.NO_SUCH_NAMESPACE, ProblemKind.LOADING)
_CREATE_PROBLEMS: Final = (ProblemKind.NOT_POSSIBLE, ProblemKind.REFUSED, ProblemKind.LOADING)

ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/namespaces",
        summary="The namespaces of this process",
        command="namespace list",
        handle=list_namespaces,
        answer=NamespaceList,
        text=lambda found: format_namespaces(found.namespaces),
        is_process_wide=True,
    ),
    ApiRoute(
        method="POST",
        path="/namespaces",
        summary="Create a namespace: a broker with its own port and files in memory",
        command="namespace add",
        handle=create_namespace,
        body=NewNamespace,
        answer=NamespaceDescription,
        text=format_namespace,
        changes=True,
        problems=(*_CREATE_PROBLEMS, ProblemKind.NAME_TAKEN),
        is_process_wide=True,
    ),
    ApiRoute(
        method="GET",
        path="/namespaces/{namespace}",
        summary="The addresses and contents of a namespace",
        handle=show_namespace,
        answer=NamespaceDescription,
        text=format_namespace,
        problems=_NAMED_PROBLEMS,
        is_process_wide=True,
    ),
    ApiRoute(
        method="DELETE",
        path="/namespaces/{namespace}",
        summary="Remove a namespace and its data",
        command="namespace rm",
        handle=remove_namespace,
        changes=True,
        problems=(*_NAMED_PROBLEMS, ProblemKind.NOT_POSSIBLE),
        is_process_wide=True,
    ),
    ApiRoute(
        method="POST",
        path="/namespaces/{namespace}/reset",
        summary="Reset a namespace to its initial state, on the same port",
        command="namespace reset",
        handle=reset_namespace,
        answer=NamespaceDescription,
        text=format_namespace,
        changes=True,
        problems=(*_CREATE_PROBLEMS, ProblemKind.NO_SUCH_NAMESPACE),
        is_process_wide=True,
    ),
    ApiRoute(
        method="PUT",
        path="/namespaces/{namespace}/advertised",
        summary="Set the advertised addresses: HOST:PORT by listener name",
        command="namespace advertise",
        handle=advertise_addresses,
        body=dict[str, str],
        answer=NamespaceDescription,
        text=format_namespace,
        changes=True,
        problems=_NAMED_PROBLEMS,
        is_process_wide=True,
    ),
)
