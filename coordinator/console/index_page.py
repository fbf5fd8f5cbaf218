"""The page at `/`: what this is, and what is here. For a browser and, as plain text, for a terminal."""

from collections.abc import Mapping
from html import escape
from string import Template
from typing import Final

from coordinator.net.peer import printable
from coordinator.server.overview import Overview

WHAT: Final = (
    "groupd is a standalone Kafka group coordinator, for tests and for debugging and teaching consumer groups. "
    "Kafka clients bootstrap against its listeners as they would against a broker."
)
MAX_TEXT: Final = 1000

_PAGE: Final = Template(
    """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$refresh<title>groupd: $standing</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1 { font-size: 1.5rem; margin: 0 }
h1 small { font-size: 1rem; font-weight: normal }
dl { margin: 1.5rem 0 }
dt { font-size: .875rem; opacity: .7; margin-top: .75rem }
dd { margin: 0; overflow-wrap: anywhere }
ul { padding: 0; list-style: none }
li { margin: .25rem 0 }
a { font-family: ui-monospace, monospace; font-size: .9375rem }
</style>
<h1>groupd <small>$version, $standing</small></h1>
<p>$what</p>
<dl>
$facts</dl>
<ul>
$links</ul>
</html>
"""
)


def as_html(overview: Overview, paths: Mapping[str, str]) -> str:
    """In: what there is at other paths. While not everything is loaded, the page loads itself again."""
    return _PAGE.substitute(
        version=escape(overview.version),
        standing=escape(overview.standing),
        what=escape(WHAT),
        refresh='<meta http-equiv="refresh" content="2">\n' if overview.standing == "loading" else "",
        facts="".join(
            f"<dt>{escape(name)}</dt>\n<dd>{escape(value)}</dd>\n" for name, value in _facts(overview)
        ),
        links="".join(
            f'<li><a href="{escape(path)}">{escape(path)}</a> {escape(meaning)}</li>\n'
            for path, meaning in paths.items()
        ),
    )


def as_text(overview: Overview, paths: Mapping[str, str]) -> str:
    """The same, for a terminal."""
    lines = [f"groupd {overview.version}, {overview.standing}", "", WHAT.replace(". ", ".\n"), ""]
    lines += [f"{name}: {printable(value, MAX_TEXT)}" for name, value in _facts(overview)]
    lines += ["", *(f"{path:<10} {meaning}" for path, meaning in paths.items())]
    return "\n".join(lines) + "\n"


def _facts(overview: Overview) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    facts = [
        (f"Listener {listener.name}", f"{listener.bound}, advertised as {listener.advertised_text}")
        for listener in overview.listeners
    ]
    groups = str(overview.groups)
    if overview.loaded_partitions < overview.partitions:
        groups += f", from {overview.loaded_partitions} of {overview.partitions} partitions"
    if overview.failed_partitions:
        groups += f" ({overview.failed_partitions} could not be read)"
    facts += [
        ("Data directory", overview.data_dir),
        ("Topics", str(overview.topics)),
        ("Groups", groups),
    ]
    if overview.transactional_ids is not None:
        producers = str(overview.transactional_ids)
        if overview.failed_transaction_partitions:
            producers += f" ({overview.failed_transaction_partitions} partitions could not be read)"
        facts.append(("Transactional ids", producers))
    return facts
