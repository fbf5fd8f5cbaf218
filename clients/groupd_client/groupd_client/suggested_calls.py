"""The actions that groupd suggests, as lines of a test."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

_CALLS: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = MappingProxyType(
    {
        "expire_member": lambda of: f"broker.group({of['group']}).member({of['member']}).expire()",
        "step_clock": lambda of: f"broker.group({of['group']}).clock.step()",
        "release_fault": lambda of: f'broker.call("POST", "faults", {of["fault"]}, "release", body={{}})',
        "remove_fault": lambda of: f'broker.call("DELETE", "faults", {of["fault"]})',
        "create_topic": lambda of: f"broker.topic({of['topic']}, 1)",
    }
)


def format_call(action: Any) -> str | None:
    """Return the call for an action of a finding or a problem: `broker.group("billing").member("bob").expire()`.

    `action` is the action as JSON. An operation of a newer daemon gives None.
    """
    if not isinstance(action, Mapping) or action.get("operation") not in _CALLS:
        return None
    arguments = action.get("arguments")
    if not isinstance(arguments, Mapping):
        return None
    try:
        return _CALLS[action["operation"]](
            {name: json.dumps(value, ensure_ascii=False) for name, value in arguments.items()}
        )
    except KeyError:
        return None
