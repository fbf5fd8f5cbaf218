"""groupd as a process of its own, with faults that a variable holds as JSON, and control on in so many words."""

import os
from typing import Any, Final

import msgspec

from coordinator.broker.server import Server
from coordinator.cli.main import main
from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_rule import FaultRule

VARIABLE: Final = "FAULTS_OF_A_TEST"


def _listen_with_faults() -> None:
    plain = Server.listen

    async def listen(self: Server, *bound: Any) -> None:
        control = ControlPlane(self)
        await plain(self, *bound)
        for rule in msgspec.json.decode(os.environ[VARIABLE], type=list[FaultRule]):
            control.faults.install_fault(rule)

    Server.listen = listen  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    _listen_with_faults()
    main()
