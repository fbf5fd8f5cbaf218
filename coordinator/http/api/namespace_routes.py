"""Namespaces: brokers beside the daemon's own, made, looked at, reset, removed. Everything else of the API is there
for each of them as well, below its own path (`service.py`)."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from coordinator.config.errors import ConfigError
from coordinator.config.listeners import Address, parse_address
from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.namespaces.description import NamespaceDescription, describe
from coordinator.control.namespaces.namespaces import DEFAULT, MOST
from coordinator.control.namespaces.text import all_text, described_text
from coordinator.control.problem import ProblemKind
from coordinator.net.peer import printable


class NewNamespace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker to be made. `name`: groupd finds one where it is not said; `topics` with their partitions; `config`
    are properties, as in a properties file; `durable`: its files are on the disk, beside the data directory, and
    stay when the daemon stops, for the next namespace of that name."""

    name: str | None = None
    topics: dict[str, Annotated[int, Meta(ge=1, le=2**31 - 1)]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    durable: bool = False


class NamespaceList(Struct, frozen=True, kw_only=True):
    """Namespaces, the daemon's own first; `most` is how many there may be beside that."""

    namespaces: list[NamespaceDescription]
    most: int


async def list_namespaces(control: Control, call: Call) -> NamespaceList:
    """All of them."""
    names = [DEFAULT, *(namespace.name for namespace in control.namespaces.all())]
    return NamespaceList(namespaces=[_described(control, name, call) for name in names], most=MOST)


async def describe_namespace(control: Control, call: Call) -> NamespaceDescription:
    """One of them."""
    return _described(control, call.path["namespace"], call)


async def make_namespace(control: Control, call: Call) -> NamespaceDescription:
    """Makes one, which is ready."""
    new: NewNamespace = call.body
    made = await control.namespaces.make(
        new.name, new.topics, new.config, is_durable=new.durable, by=call.actor
    )
    return _described(control, made.name, call)


async def reset_namespace(control: Control, call: Call) -> NamespaceDescription:
    """Has it be as it was when it was made."""
    reset = await control.namespaces.reset(call.path["namespace"], call.actor)
    return _described(control, reset.name, call)


async def remove_namespace(control: Control, call: Call) -> None:
    """Nothing is left of it."""
    await control.namespaces.remove(call.path["namespace"], call.actor)


async def advertise(control: Control, call: Call) -> NamespaceDescription:
    """Has clients be told to connect elsewhere."""
    wanted: dict[str, str] = call.body
    name = call.path["namespace"]
    addresses = {listener: _address(listener, text) for listener, text in wanted.items()}
    control.namespaces.advertise(name, addresses, call.actor)
    return _described(control, name, call)


def _address(listener: str, text: str) -> Address:
    pointer = f"/{printable(listener)}"
    try:
        address = parse_address(text, printable(listener))
    except ConfigError as error:
        raise bad_request(pointer, "The address is wrong", f"{error}.") from error
    if not address.port or address.is_wildcard:
        detail = f"{printable(text)} is no address that a client can connect to."
        raise bad_request(pointer, "The address is wrong", detail)
    return address


def _described(control: Control, name: str, call: Call) -> NamespaceDescription:
    if name == DEFAULT:
        return describe(DEFAULT, control.server, None, call.host)
    namespace = control.namespaces.get(name)
    return describe(name, namespace.server, namespace.created_ms, call.host)


_BY_NAME: Final = (ProblemKind.NO_SUCH_NAMESPACE, ProblemKind.LOADING)
_MADE: Final = (ProblemKind.NOT_POSSIBLE, ProblemKind.REFUSED, ProblemKind.LOADING)

ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/namespaces",
        summary="Brokers of this process",
        handle=list_namespaces,
        answer=NamespaceList,
        text=lambda found: all_text(found.namespaces),
        is_of_process=True,
    ),
    ApiRoute(
        method="POST",
        path="/namespaces",
        summary="Make a broker, on a port of its own, with files in memory",
        handle=make_namespace,
        body=NewNamespace,
        answer=NamespaceDescription,
        text=described_text,
        changes=True,
        problems=(*_MADE, ProblemKind.NAME_TAKEN),
        is_of_process=True,
    ),
    ApiRoute(
        method="GET",
        path="/namespaces/{namespace}",
        summary="A broker: where clients connect, and what it has",
        handle=describe_namespace,
        answer=NamespaceDescription,
        text=described_text,
        problems=_BY_NAME,
        is_of_process=True,
    ),
    ApiRoute(
        method="DELETE",
        path="/namespaces/{namespace}",
        summary="Remove a broker with all that it has",
        handle=remove_namespace,
        changes=True,
        problems=(*_BY_NAME, ProblemKind.NOT_POSSIBLE),
        is_of_process=True,
    ),
    ApiRoute(
        method="POST",
        path="/namespaces/{namespace}/reset",
        summary="Have a broker be as it was when it was made, on the same port",
        handle=reset_namespace,
        answer=NamespaceDescription,
        text=described_text,
        changes=True,
        problems=(*_MADE, ProblemKind.NO_SUCH_NAMESPACE),
        is_of_process=True,
    ),
    ApiRoute(
        method="PUT",
        path="/namespaces/{namespace}/advertised",
        summary="What clients are told to connect to: HOST:PORT by the name of the listener",
        handle=advertise,
        body=dict[str, str],
        answer=NamespaceDescription,
        text=described_text,
        changes=True,
        problems=_BY_NAME,
        is_of_process=True,
    ),
)
