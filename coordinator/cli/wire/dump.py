"""`groupd wire dump`: recorded frames."""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from coordinator.cli.wire.bytes_given import from_hex, given
from coordinator.cli.wire.fields import as_json, as_lines, with_inner
from coordinator.net.peer import printable
from coordinator.suggestions import suggest
from protocol.annotated import Annotated, annotate_request, annotate_response
from protocol.apis import APIS
from protocol.malformed import Malformed

EPILOG = """FILE has one exchange a line, as JSON: "api" and "version", and "request", "response" or both, whole
frames in hexadecimal digits with their header and without the size in front; "client" is printed where it is there.
Lines without "api" are passed over. So the captures of tests/frames are kept."""

_BY_NAME: Final = {api.name: api for api in APIS.values()}


def _exchanges(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise click.ClickException(f"line {number} is no JSON: {error}") from error
        if not isinstance(entry, dict):
            raise click.ClickException(f"line {number} is no JSON object")
        if "api" in entry:
            yield number, entry


def _frames(number: int, entry: dict[str, Any]) -> Iterator[tuple[str, Annotated]]:
    """What is in a line: "request" or "response", and its fields."""
    api, version = _BY_NAME.get(entry["api"]), entry.get("version")
    if api is None or not isinstance(version, int) or version not in api.versions:
        raise click.ClickException(f"line {number}: {entry['api']} has no version {version} here")
    for kind in ("request", "response"):
        if kind not in entry:
            continue
        frame = from_hex(str(entry[kind]))
        try:
            if kind == "response":
                annotated = annotate_response(api.key, version, frame)
            else:
                annotated = annotate_request(frame)[2]
        except Malformed as error:
            annotated = Annotated([], str(error))
        yield kind, with_inner(annotated, frame)


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE")
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Only this API; may be repeated.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a field.")
def command(path: str, apis: tuple[str, ...], is_json: bool) -> None:
    """Print recorded frames of FILE ("-": standard input), field by field."""
    unknown = sorted(set(apis) - set(_BY_NAME))
    if unknown:
        hint = suggest(unknown[0], _BY_NAME)
        raise click.BadParameter(f"{printable(unknown[0])} is not an API {hint}", param_hint="--api")
    is_sound = True
    for number, entry in _exchanges(given(path, None)):
        if apis and entry["api"] not in apis:
            continue
        for kind, annotated in _frames(number, entry):
            is_sound &= annotated.problem is None
            name = f"{entry['api']}{kind.capitalize()}"
            if is_json:
                lines = as_json(annotated, line=number, message=name, version=entry["version"])
            else:
                client = f" of {entry['client']}" if "client" in entry else ""
                click.echo(f"line {number}: {name} v{entry['version']}{client}")
                lines = as_lines(annotated)
            for line in lines:
                click.echo(line)
            if not is_json:
                click.echo()
    sys.exit(0 if is_sound else 1)
