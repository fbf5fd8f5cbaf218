"""Which edges between lines a call takes, counted by the interpreter's own trace function."""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

Edge: TypeAlias = tuple[int, int, int]
"""Code object, the line before, the line."""

_TRACED: Final = ("/protocol/", "/storage/", "/coordinator/", "<decode ", "<encode ")
"""Parts of file names. Lines of these files count; generated codecs have special names."""


class TooManySteps(BaseException):
    """The call runs on and on. No exception of the ordinary kind, so that nothing on the way takes it for one."""


class Coverage:
    """Runs calls and remembers all edges that any of them took."""

    def __init__(self) -> None:
        self.edges: set[Edge] = set()
        self._traced: dict[CodeType, bool] = {}

    def run(self, call: Callable[[], object], most_steps: int) -> tuple[int, int]:
        """Calls; how many edges were new, and how many lines ran.

        Raises what the call raises (the edges count all the same), TooManySteps after `most_steps` lines.
        """
        found: set[Edge] = set()
        steps = 0

        def enter(frame: FrameType, event: str, argument: Any) -> Any:
            code = frame.f_code
            if not self._is_traced(code):
                return None
            number, last = id(code), 0

            def step(frame: FrameType, event: str, argument: Any) -> Any:
                nonlocal last, steps
                if event == "line":
                    line = frame.f_lineno
                    found.add((number, last, line))
                    last = line
                    steps += 1
                    if steps > most_steps:
                        raise TooManySteps(f"more than {most_steps} lines, at {code.co_filename}:{line}")
                return step

            return step

        before = sys.gettrace()
        known = len(self.edges)
        try:
            sys.settrace(enter)
            call()
        finally:
            sys.settrace(before)
            self.edges |= found
            self.new_edges = len(self.edges) - known
        return self.new_edges, steps

    new_edges = 0
    """Of the last call, raised or not."""

    def _is_traced(self, code: CodeType) -> bool:
        is_traced = self._traced.get(code)
        if is_traced is None:
            name = code.co_filename
            is_traced = "/tests/" not in name and any(part in name for part in _TRACED)
            self._traced[code] = is_traced
        return is_traced
