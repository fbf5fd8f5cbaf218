"""Kafka's command-line tools, as far as compose files and scripts call them: `groupd kafka-tools TOOL [ARGUMENTS]`.

Each tool has the options, the output and the exit codes of the tool of Apache Kafka 4.4.0, as docs/kafka-tools.md
lists them. An image links the names of the tools to `python -m coordinator.cli.kafka_tools`.
"""

import sys
from typing import Final

import click

_LISTED: Final = "Run one of Kafka's tools: kafka-topics, kafka-configs, kafka-console-consumer, ..."


@click.command(
    short_help=_LISTED,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", metavar="TOOL [ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> None:
    """Run one of Kafka's tools; alone it lists them."""
    from coordinator.cli.kafka_tools.dispatch import TOOLS, main

    if not words or words[0] in ("--help", "-h"):
        print("Usage: groupd kafka-tools TOOL [ARGUMENTS]...\n\nTools, with Kafka's options (TOOL --help):")
        for name, tool in TOOLS.items():
            print(f"  {name:<26} {tool.summary}")
        sys.exit(0)
    sys.exit(main(words[0], words[1:]))
