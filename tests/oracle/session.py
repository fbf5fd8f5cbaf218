"""Sessions and their library.

    @session(version=range(5))
    def a_beat_of_nobody(play: Play, version: int) -> None:
        play.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody"), version)

declares five sessions, one for each value of the parameter. A session is one scripted conversation of some
connections with a broker. It does not know its peer: the broker's responses are recorded, and two such accounts are
compared.
"""

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.oracle.play import Play

Script = Callable[..., None]


@dataclass(frozen=True)
class Session:
    """One scripted conversation."""

    name: str
    """The function's, and the parameters' values."""
    subject: str
    """The module that declares it."""
    script: Callable[["Play"], None]
    setup: str
    """The configuration that both brokers run with: a key of `peers.SETUPS`."""

    @property
    def script_name(self) -> str:
        """The function's name."""
        return self.name.partition("[")[0]


_LIBRARY: dict[str, Session] = {}


def session(setup: str = "plain", **parameters: Iterable[Any]) -> Callable[[Script], Script]:
    """Declares a session for every combination of the parameters' values."""

    def declare(script: Script) -> Script:
        subject = script.__module__.rpartition(".")[2]
        for values in itertools.product(*parameters.values()):
            given = dict(zip(parameters, values, strict=True))
            name = script.__name__ + "".join(f"[{_text(name, value)}]" for name, value in given.items())
            assert name not in _LIBRARY, f"two sessions are called {name}"
            _LIBRARY[name] = Session(name, subject, _bind(script, given), setup)
        return script

    return declare


def _text(name: str, value: Any) -> str:
    return f"v{value}" if name == "version" else str(value)


def _bind(script: Script, given: dict[str, Any]) -> Callable[["Play"], None]:
    return lambda play: script(play, **given)


def library() -> list[Session]:
    """Every session, by subject and in the order of the files."""
    package = importlib.import_module("tests.oracle.sessions")
    for module in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return sorted(_LIBRARY.values(), key=lambda each: each.subject)
