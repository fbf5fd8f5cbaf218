"""Injected faults of a broker."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from groupd_client import operations
from groupd_client.operation import Operation, Span
from groupd_client.problem import Problem, note_cleanup_error
from groupd_client.value import Value


def fault_rule(
    name: str | None,
    use: str | None,
    match: Mapping[str, Any] | None,
    on: Mapping[str, Any] | None,
    do: Mapping[str, Any] | None,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the rule of a fault for the API. `duration` is the API's `for`, a reserved word in Python."""
    rule = {"name": name, "use": use, "match": match, "on": on, "do": do, **more}
    if "duration" in rule:
        rule["for"] = rule.pop("duration")
    return rule


class Fault:
    """A fault of a broker. A context manager removes it at the end of the block."""

    def __init__(self, name: str, run: Callable[[Operation], Any]) -> None:
        self.name = name
        self._run = run

    @property
    def status(self) -> Value:
        """The current `state`, and the counts `matched`, `hit` and `holding`."""
        found: Value = self._run(operations.fault("GET", self.name))
        return found

    def wait(self, hit: int = 1, within: Span = operations.DEFAULT_WAIT) -> Value:
        """Wait until the fault has `hit` hits. Raises NotMet."""
        __tracebackhide__ = True
        found: Value = self._run(operations.wait_for_hit(self.name, hit, within))
        return found

    def release(self, *, only_oldest: bool = False) -> Value:
        """Release the held requests of the fault."""
        body = {"one": "oldest"} if only_oldest else {}
        found: Value = self._run(operations.fault("POST", self.name, "release", body=body))
        return found

    def remove(self) -> None:
        """Remove the fault and release its held requests."""
        self._run(operations.fault("DELETE", self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the fault {self.name}"):
            try:
                self.remove()
            except Problem as problem:
                if problem.kind != "no-such-fault":  # it has acted as often as it should
                    raise
