"""A driver's transactional producer, as a test handles it."""

from tests.interop.broker import Broker
from tests.interop.driver import Driver
from tests.interop.member import Board, Event, Member

STEP_TIMEOUT_S = 60.0


class Transactor:
    """A process with one transactional producer that executes commands."""

    def __init__(
        self,
        broker: Broker,
        driver: Driver,
        command: list[str],
        board: Board,
        transactional_id: str,
        *options: str,
    ) -> None:
        """Start it; `options` are more of the driver's."""
        board.broker_report = broker.report
        self._board = board
        number = len(board.members) + 1
        self._member = Member(
            board,
            f"{driver.name}-transactor-{number}",
            [
                *(*command, "--mode", "transact", "--bootstrap", broker.bootstrap),
                *("--transactional-id", transactional_id, *options),
            ],
        )

    def ask(self, step: str) -> Event:
        """Have it do something; return its `done` or its first `error`."""
        before = len(self._answers())
        self._member.say(step)
        self._board.wait(
            f"{self._member.name} to {step}", lambda: len(self._answers()) > before, STEP_TIMEOUT_S
        )
        return self._answers()[before]

    def _answers(self) -> list[Event]:
        return [event for event in self._member.events if event["event"] in ("done", "error")]

    def do(self, *steps: str) -> None:
        """Have it do things that succeed."""
        for step in steps:
            answer = self.ask(step)
            assert answer["event"] == "done", f"{step}: {answer}\n{self._board.report()}"

    def kill(self) -> None:
        """SIGKILL."""
        self._member.kill()

    def leave(self) -> None:
        """Close the producer as its users do."""
        self._member.leave()
