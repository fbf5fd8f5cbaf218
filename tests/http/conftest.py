"""The HTTP port of a server with one group."""

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from coordinator.console.api.service import ApiService
from coordinator.console.application import make_application
from coordinator.console.control_access import ControlAccess
from coordinator.control.control import Control
from coordinator.server.broker import Broker
from tests.server.harness import Client, join_alone, serving

Http = TestClient[Request, Application]


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with serving() as server:
        async with Client(server) as member:
            await join_alone(member, "billing")
        broker, access = Broker(server), ControlAccess(own_host="127.0.0.1", is_loopback=True)
        api = ApiService(Control(server), access, broker.lines)
        async with TestClient(TestServer(make_application(broker, api))) as client:
            yield client
