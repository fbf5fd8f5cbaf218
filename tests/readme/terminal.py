"""A terminal with a shell in it: text is pasted, the screen is read, Ctrl-C is pressed."""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CTRL_C: Final = b"\x03"
ROWS_AND_COLUMNS: Final = (50, 400)
OUR_SHELL: Final = {"PS1": "\\$\\n", "PS2": "", "TERM": "dumb", "HISTFILE": ""}
"""The prompt has a line of its own, so that the output of a command always begins a line."""

END_TIMEOUT_S: Final = 60
"""How long anything may take to end after Ctrl-C."""

CRASH: Final = re.compile(
    r"Traceback \(most recent|Exception in thread|^panic:|[Uu]nhandled|Exception ignored", re.MULTILINE
)


def _as_on_a_terminal() -> None:
    """In the child: the pseudoterminal becomes its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """One interactive bash on a pseudoterminal."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        """Open it in a directory."""
        self._keys, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", *ROWS_AND_COLUMNS, 0, 0))
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i"],
            cwd=directory,
            env={**environment, **OUR_SHELL},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=_as_on_a_terminal,
        )
        os.close(inside)
        self._changed = threading.Condition()
        self._screen = ""
        self._prompts = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                data = os.read(self._keys, 65536)
            except OSError:  # how Linux says that the last process of the terminal is gone
                return
            if not data:
                return
            with self._changed:
                self._screen += decoder.decode(data).replace("\r", "")
                self._changed.notify_all()

    def mark(self) -> int:
        """Return the place on the screen where the next character will be printed."""
        with self._changed:
            return len(self._screen)

    def since(self, mark: int) -> str:
        """Return the output since the mark."""
        with self._changed:
            return self._screen[mark:]

    def paste(self, text: str) -> None:
        """Paste text and press Enter."""
        os.write(self._keys, text.rstrip("\n").encode() + b"\n")

    def wait(self, pattern: re.Pattern[str], mark: int, timeout_s: float) -> re.Match[str]:
        """Return where something is printed at or after the mark, once it is; AssertionError if it is not."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while (found := pattern.search(self._screen, mark)) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    screen = self._screen[mark:]
                    raise AssertionError(
                        f"no {pattern.pattern!r} for {timeout_s} s on this screen:\n{screen}"
                    )
                self._changed.wait(left)
        return found

    def prompt(self, timeout_s: float) -> int:
        """Wait until the shell takes a command again; return the exit status of the last one."""
        self._prompts += 1
        mark = self.mark()
        # What runs in the background may write into the same line, before and behind.
        self.paste(f"echo '<'$?'> was status' {self._prompts}")
        answer = re.compile(rf"<(\d+)> was status {self._prompts}\b")
        return int(self.wait(answer, mark, timeout_s)[1])

    def interrupt(self, mark: int) -> int:
        """Press Ctrl-C and return the exit status.

        The command pasted at the mark must end soon, and its output must show no crash.
        """
        os.write(self._keys, CTRL_C)
        status = self.prompt(END_TIMEOUT_S)
        screen = self.since(mark)
        assert not CRASH.search(screen), screen
        return status

    def close(self) -> None:
        """Close the window: the shell hangs up on all that it has started, and ends."""
        self._shell.send_signal(signal.SIGHUP)
        try:
            self._shell.wait(5)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait(5)
        self._reader.join(5)
        os.close(self._keys)
