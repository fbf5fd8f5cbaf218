"""`groupd kafka-tools TOOL [ARGUMENTS]`: Kafka's command-line tools, as far as compose files and scripts use
them, and `cub` and `nc` of its images. Finds a tool by the name of its program (`kafka-topics`,
`/usr/bin/kafka-topics.sh`), runs it, and turns its errors into output and an exit code.

Each tool has the options, the output and the exit codes of the tool of Apache Kafka 4.4.0, as
docs/kafka-tools.md lists them. The image has a link with the name of each tool.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import current_thread, main_thread
from types import FrameType
from typing import Final, NamedTuple, Protocol, cast

import click

from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolExit, ToolFailure, UsageError
from coordinator.cli.kafka_tools.tool_options import OptionTable
from coordinator.cli.output_streams import exit_interrupted, guard_output, is_closed, replace_closed_stderr
from storage.storage_errors import format_error_reason

_SHORT_HELP: Final = "Run one of Kafka's tools: kafka-topics, kafka-configs, kafka-console-consumer, ..."


@click.command(
    short_help=_SHORT_HELP,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", metavar="TOOL [ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def run_kafka_tool(words: tuple[str, ...]) -> None:
    """Run one of Kafka's tools. Without TOOL, list the tools."""

    if not words or words[0] in ("--help", "-h"):
        print("Usage: groupd kafka-tools TOOL [ARGUMENTS]...\n\nTools, with Kafka's options (TOOL --help):")
        for name, tool in TOOLS.items():
            print(f"  {name:<26} {tool.summary}")
        sys.exit(0)
    sys.exit(main(words[0], words[1:]))


SUCCESS: Final = 0
FAILURE: Final = 1


class ToolModule(Protocol):
    """A module of this package with a tool."""

    OPTIONS: OptionTable | None
    """The options of the tool; None for a tool with arguments of another form."""
    UNRECOGNIZED_PREFIX: str
    """The text that Kafka's tool prints before the message about an unknown option."""

    def run(self, arguments: Sequence[str]) -> int:
        """Run the tool and return the exit code. Raises UsageError, ToolFailure, ToolExit, KafkaError."""


class Tool(NamedTuple):
    """A tool: its module and a one-line summary."""

    module: str
    summary: str


TOOLS: Final = {
    "cub": Tool("cub_tool", "Wait until brokers, or services of Confluent's images, are ready."),
    "kafka-acls": Tool("acls_tool", "Add, remove and list ACLs."),
    "kafka-broker-api-versions": Tool("broker_api_versions_tool", "Print the API versions of each broker."),
    "kafka-cluster": Tool("cluster_tool", "Print the cluster id."),
    "kafka-configs": Tool("configs_tool", "Describe and alter configs of topics and SCRAM users."),
    "kafka-console-consumer": Tool("console_consumer_tool", "Print the records of a topic."),
    "kafka-console-producer": Tool("console_producer_tool", "Write lines of standard input to a topic."),
    "kafka-consumer-groups": Tool(
        "consumer_groups_tool", "List, describe, reset and delete consumer groups."
    ),
    "kafka-get-offsets": Tool("get_offsets_tool", "Print offsets of partitions."),
    "kafka-metadata-quorum": Tool("metadata_quorum_tool", "Print the status of the metadata quorum."),
    "kafka-run-class": Tool("run_class_tool", "Run one of these tools by the name of its Java class."),
    "kafka-topics": Tool("topics_tool", "List, describe, create, alter and delete topics."),
    "nc": Tool("nc_tool", "Test whether a TCP port accepts connections."),
}
"""The tools by program name."""


def tool_name(program: str) -> str:
    """Return the name of a tool from the path of its program: the base name without `.sh`."""
    return os.path.basename(program).removesuffix(".sh")


def main(program: str, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code. `program` is the name of the tool or the path of the program."""
    replace_closed_stderr()
    name = tool_name(program)
    tool = TOOLS.get(name)
    if tool is None:
        _print_error(f"groupd has no tool {name}. Use one of: {', '.join(TOOLS)}")
        return FAILURE
    if is_closed(sys.stdout):
        _print_error("standard output: is closed")
        return FAILURE
    with _ending_by_signal():
        return _call_tool(tool, name, arguments)


@contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Let SIGTERM raise SystemExit in the block, with the exit code of a shell. A consumer can then leave its
    group."""
    if current_thread() is not main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _call_tool(tool: Tool, name: str, arguments: Sequence[str]) -> int:
    module = cast("ToolModule", import_module(f"{__package__}.{tool.module}"))
    try:
        with guard_output():
            return _run_tool(module, name, arguments)
    except KeyboardInterrupt:
        exit_interrupted()
    except OSError as error:
        _print_error(f"{name}: {format_error_reason(error)}")
        return FAILURE


def _run_tool(module: ToolModule, name: str, arguments: Sequence[str]) -> int:
    try:
        return module.run(arguments)
    except ToolExit:
        return SUCCESS
    except UsageError as error:
        _print_usage(module, name, error)
    except ToolFailure as failure:
        print(failure, file=sys.stdout if failure.is_on_stdout else sys.stderr)
        return failure.exit_code
    except KafkaError as error:
        _print_error(str(error))
    return FAILURE


def _print_usage(module: ToolModule, name: str, error: UsageError) -> None:
    prefix = module.UNRECOGNIZED_PREFIX if error.is_unrecognized else ""
    _print_error(f"{prefix}{error}")
    if error.hint:
        _print_error(error.hint)
    if module.OPTIONS is not None:
        _print_error(f"\nOptions of {name}:\n{module.OPTIONS.describe()}")


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)
