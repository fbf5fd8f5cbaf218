"""A fault: made, waited for, released, removed."""

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
    """The fault as the API takes it. `for` is no name that Python lets pass: `duration`."""
    rule = {"name": name, "use": use, "match": match, "on": on, "do": do, **more}
    if "duration" in rule:
        rule["for"] = rule.pop("duration")
    return rule


class Fault:
    """A fault of a broker. As a context manager it is removed at the end of the block."""

    def __init__(self, name: str, run: Callable[[Operation], Any]) -> None:
        self.name = name
        self._run = run

    @property
    def status(self) -> Value:
        """`state`, and how often it `matched`, `hit`, and how much it is `holding`."""
        found: Value = self._run(operations.fault("GET", self.name))
        return found

    def wait(self, hit: int = 1, within: Span = operations.DEFAULT_WAIT) -> Value:
        """Waits until it has hit so often. Raises NotMet."""
        __tracebackhide__ = True
        found: Value = self._run(operations.wait_for_hit(self.name, hit, within))
        return found

    def release(self, *, only_oldest: bool = False) -> Value:
        """Lets go of what it holds."""
        body = {"one": "oldest"} if only_oldest else {}
        found: Value = self._run(operations.fault("POST", self.name, "release", body=body))
        return found

    def remove(self) -> None:
        """Removes it; what it holds goes on."""
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
