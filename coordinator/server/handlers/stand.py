"""Who stands for a caller whose request is no longer at hand."""

from coordinator.names import Node
from coordinator.net.caller import Caller
from coordinator.net.slot import Slot
from coordinator.security.principal import Principal


class Stand:
    """All that a handler knows of a caller, as it was when the request was at hand."""

    __slots__ = (
        "api_name",
        "api_version",
        "caller",
        "client_host",
        "client_id",
        "connection_id",
        "is_large",
        "node",
        "principal",
    )

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.client_id: str = caller.client_id
        self.client_host: str = caller.client_host
        self.connection_id: int = caller.connection_id
        self.principal: Principal = caller.principal
        self.node: Node = caller.node
        self.api_name: str = caller.api_name
        self.api_version: int = caller.api_version
        self.is_large: bool = caller.is_large

    def answer_later(self, *, parks: bool) -> Slot:
        """Where the answer goes."""
        return self.caller.answer_later(parks=parks)
