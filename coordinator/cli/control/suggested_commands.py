"""Explanations of groups as text, with the actions of findings as groupd commands."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from coordinator.cli.control.api_answers import ExplainedGroup
from coordinator.control.group_finding import FindingOperation

_COMMANDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = MappingProxyType(
    {
        FindingOperation.EXPIRE_MEMBER: (("expire",), ("{group}", "{member}")),
        FindingOperation.STEP_CLOCK: (("clock",), ("{group}", "step")),
        FindingOperation.RELEASE_FAULT: (("fault", "release"), ("{fault}",)),
        FindingOperation.REMOVE_FAULT: (("fault", "rm"), ("{fault}",)),
    }
)
"""The words of a command and the forms of its arguments, by operation."""
_CREATE_TOPIC: Final[tuple[str, ...]] = (
    *("kafka-tools", "kafka-topics", "--bootstrap-server", "{bootstrap}"),
    *("--create", "--topic", "{topic}"),
)


def format_command(
    operation: str,
    arguments: Mapping[str, str],
    namespace: str | None,
    find_bootstrap: Callable[[], str | None],
) -> str | None:
    """Return the groupd command of an action, or None without one.

    An operation of a newer daemon has no command. Nor has a topic to create while the address of the broker is
    unknown: the command is an addition to another message, which the caller prints in any case.

    Args:
        operation: The operation of a `FindingAction`.
        arguments: Its arguments.
        namespace: The namespace of the group, None for the daemon's own broker.
        find_bootstrap: Returns the address of the broker, `HOST:PORT`, or None if it is unknown.
    """
    if operation == FindingOperation.CREATE_TOPIC:
        bootstrap = find_bootstrap()
        if bootstrap is None:
            return None
        words = [word.format(bootstrap=bootstrap, topic=arguments["topic"]) for word in _CREATE_TOPIC]
    elif operation in _COMMANDS:
        names, forms = _COMMANDS[operation]
        values = [form.format_map(arguments) for form in forms]
        option = [] if namespace is None else ["--namespace", namespace]
        has_dash = any(value.startswith("-") for value in values)  # it would be an option without "--"
        words = [*names, *option, "--", *values] if has_dash else [*names, *values, *option]
    else:
        return None
    return " ".join(["groupd", *map(shlex.quote, words)])


def format_explanation(
    explained: ExplainedGroup, namespace: str | None, find_bootstrap: Callable[[], str | None]
) -> str:
    """Return an explanation as text: the state, the findings, and each remedy with its commands.

    The text of a remedy is the hint of a finding, or the label of the action of a finding without a hint. A remedy
    of several findings is printed once, with the command of each.
    """
    find_bootstrap = cache(find_bootstrap)
    lines = [explained.detail]
    lines += [f"- {finding.sentence}." for finding in explained.findings]
    remedies: dict[str, list[str]] = {}
    for finding in explained.findings:
        remedy, action, command = finding.hint, finding.action, None
        if action is not None:
            command = format_command(action.operation, action.arguments, namespace, find_bootstrap)
            if remedy is None and command is not None:
                remedy = action.label
        if remedy is not None:
            commands = remedies.setdefault(remedy, [])
            if command is not None and command not in commands:
                commands.append(command)
    for remedy, commands in remedies.items():
        lines += [f"? {remedy}", *(f"    {command}" for command in commands)]
    return "\n".join(lines)


def list_problem_commands(
    problem: Mapping[str, Any], namespace: str | None, find_bootstrap: Callable[[], str | None]
) -> Iterator[str]:
    """Yield the commands of the actions of a problem. An action of another form or operation yields none."""
    find_bootstrap = cache(find_bootstrap)
    actions = problem.get("actions")
    for action in actions if isinstance(actions, list) else []:
        operation, arguments = (
            (action.get("operation"), action.get("arguments")) if isinstance(action, dict) else (None, None)
        )
        if isinstance(operation, str) and isinstance(arguments, dict):
            try:
                command = format_command(operation, arguments, namespace, find_bootstrap)
            except (KeyError, TypeError):
                continue
            if command is not None:
                yield command
