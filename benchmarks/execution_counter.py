"""Counts of executed code: Python calls, C calls and bytecodes, for each function.

The interpreter calls the counter for every instruction and every call: with Python 3.11 by `sys.settrace` and
`sys.setprofile`, later by `sys.monitoring`. Instructions are counted as the compiler wrote them: it does not
matter whether the interpreter has specialized them. The same code with the same input therefore has the same counts
in every process. The counts differ between minor versions of Python, as their compilers do.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    MethodDescriptorType,
    TracebackType,
)
from typing import Any, Final, NamedTuple, Self

_C_FUNCTIONS: Final = (BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType)


class ExecutionCounts(NamedTuple):
    """Totals of one or more measurements. All three can be divided by a number of requests."""

    python_calls: float
    """Calls of Python functions; every resumption of a generator or coroutine is one."""
    c_calls: float
    """Calls of functions and methods written in C. Calls of classes are not among them."""
    bytecodes: float

    def divided_by(self, number: int) -> "ExecutionCounts":
        """Return the counts of one request among `number`."""
        return ExecutionCounts(*(count / number for count in self))


class ExecutionCounter:
    """A context manager that counts what the current thread executes inside it.

    `is_native` says which Python functions stand for C functions, such as those of an event loop. A call of one
    from other code counts as a C call, and nothing inside it is counted. Counts add up when the counter is entered
    again.
    """

    def __init__(self, is_native: Callable[[CodeType], bool]) -> None:
        self.python_calls: Counter[CodeType] = Counter()
        self.c_calls: Counter[CodeType] = Counter()
        """By the function that called."""
        self.bytecodes: Counter[CodeType] = Counter()
        self._is_native = is_native
        self._native: dict[CodeType, bool] = {}

    @property
    def total(self) -> ExecutionCounts:
        """The sums over all functions."""
        return ExecutionCounts(self.python_calls.total(), self.c_calls.total(), self.bytecodes.total())

    def _check_native(self, code: CodeType) -> bool:
        is_native = self._native.get(code)
        if is_native is None:
            is_native = self._native[code] = self._is_native(code)
        return is_native

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()  # a collection runs callbacks of weak references, at any time
        if sys.version_info >= (3, 12):
            self._start_monitoring()
        else:
            self._start_tracing()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        else:
            trace, profile = self._before
            sys.settrace(trace)
            sys.setprofile(profile)
        if self._collects:
            gc.enable()

    def _start_tracing(self) -> None:
        python_calls, c_calls, bytecodes = self.python_calls, self.c_calls, self.bytecodes
        is_native = self._check_native

        def trace_opcode(frame: FrameType, event: str, _: Any) -> Any:
            if event == "opcode":
                bytecodes[frame.f_code] += 1
            return trace_opcode

        def trace_call(frame: FrameType, _event: str, _: Any) -> Any:
            code, caller = frame.f_code, frame.f_back
            if is_native(code):
                if caller is not None and not is_native(caller.f_code):
                    c_calls[caller.f_code] += 1
                return None
            python_calls[code] += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return trace_opcode

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event == "c_call" and not is_native(frame.f_code):
                c_calls[frame.f_code] += 1

        self._before = sys.gettrace(), sys.getprofile()
        sys.setprofile(profile)
        sys.settrace(trace_call)

    if sys.version_info >= (3, 12):
        # Here `f_trace_opcodes` has no effect on the frame that is being entered.

        def _start_monitoring(self) -> None:
            python_calls, c_calls, bytecodes = self.python_calls, self.c_calls, self.bytecodes
            is_native = self._check_native

            def count_start(code: CodeType, _: int) -> None:
                caller = sys._getframe(1).f_back
                if not is_native(code):
                    python_calls[code] += 1
                elif caller is not None and not is_native(caller.f_code):
                    c_calls[caller.f_code] += 1

            def count_instruction(code: CodeType, _: int) -> None:
                if not is_native(code):
                    bytecodes[code] += 1

            def count_call(code: CodeType, _: int, function: object, _first: object) -> None:
                if isinstance(function, _C_FUNCTIONS) and not is_native(code):
                    c_calls[code] += 1

            tool, events = sys.monitoring.PROFILER_ID, sys.monitoring.events
            sys.monitoring.use_tool_id(tool, __name__)
            for event in (events.PY_START, events.PY_RESUME):
                sys.monitoring.register_callback(tool, event, count_start)
            sys.monitoring.register_callback(tool, events.INSTRUCTION, count_instruction)
            sys.monitoring.register_callback(tool, events.CALL, count_call)
            counted = events.PY_START | events.PY_RESUME | events.INSTRUCTION | events.CALL
            sys.monitoring.set_events(tool, counted)
