"""`groupd wire decode`: one message."""

import sys
from functools import cache
from typing import Any

import click

from coordinator.cli.wire.bytes_given import given
from coordinator.cli.wire.fields import as_json, as_lines, with_inner
from coordinator.net.peer import printable
from coordinator.suggestions import suggest
from protocol.annotated import Annotated, annotate, annotate_request, annotate_response
from protocol.apis import APIS, Api
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.malformed import Malformed
from protocol.schema import message_info

EPILOG = """MESSAGE is Kafka's name of it: JoinGroupRequest, JoinGroupResponse, ...,
ConsumerProtocolSubscription, ConsumerProtocolAssignment. The bytes are those of the body; with --frame those of a
whole frame with its header, and without the size in front of it. Bytes of the consumer protocol within (metadata,
assignment) are opened as well.

Example: groupd wire decode HeartbeatRequest 0 --hex '0001 67 00000001 0001 6d'"""


@cache
def _messages() -> dict[str, Api | type[Any]]:
    named: dict[str, Api | type[Any]] = {
        cls.__name__: cls for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
    }
    for api in APIS.values():
        named[f"{api.name}Request"] = named[f"{api.name}Response"] = api
    return named


def _class_of(name: str) -> type[Any]:
    """A message by its name. Raises BadParameter."""
    found = _messages().get(name)
    if found is None:
        hint = suggest(name, _messages())
        raise click.BadParameter(f"{printable(name)} is not a message {hint}", param_hint="MESSAGE")
    if isinstance(found, Api):
        cls: type[Any] = found.request if name.endswith("Request") else found.response
        return cls
    return found


def _annotated(name: str, version: int, data: bytes, *, is_frame: bool) -> Annotated:
    cls = _class_of(name)
    if version not in message_info(cls).versions:
        versions = message_info(cls).versions
        raise click.BadParameter(
            f"{name} has versions {versions.first} to {versions.last}", param_hint="VERSION"
        )
    if not is_frame:
        return annotate(cls, version, data)
    api = _messages()[name]
    if not isinstance(api, Api):
        raise click.UsageError(f"{name} has no frame of its own")
    if name.endswith("Response"):
        return annotate_response(api.key, version, data)
    found, found_version, annotated = annotate_request(data)
    if (found.key, found_version) != (api.key, version):
        raise click.UsageError(f"the header says {found.name}Request, version {found_version}")
    return annotated


@click.command(epilog=EPILOG)
@click.argument("message", metavar="MESSAGE")
@click.argument("version", type=int, metavar="VERSION")
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--hex", "hex_text", metavar="DIGITS", help="The bytes, in hexadecimal digits.")
@click.option("--frame", "is_frame", is_flag=True, help="The bytes are a frame: a header stands in front.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a field.")
def command(
    message: str, version: int, path: str | None, hex_text: str | None, is_frame: bool, is_json: bool
) -> None:
    """Print a message, field by field, from the bytes of FILE ("-": standard input) or of --hex."""
    data = given(path, hex_text)
    try:
        annotated = with_inner(_annotated(message, version, data, is_frame=is_frame), data)
    except Malformed as error:
        click.echo(f"not sound: {error}", err=True)
        sys.exit(1)
    for line in as_json(annotated) if is_json else as_lines(annotated):
        click.echo(line)
    sys.exit(1 if annotated.problem else 0)
