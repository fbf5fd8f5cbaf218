"""The HTTP port of a server with one group."""

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from coordinator.broker.server_view import ServerView
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.http.api.api_service import ApiService
from coordinator.http.http_access import ControlAccess
from coordinator.http.http_service import create_application
from tests.broker.harness import Client, join_alone, serving

Http = TestClient[Request, Application]


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with serving() as server:
        async with Client(server) as member:
            await join_alone(member, "billing")
        broker, access = ServerView(server), ControlAccess(own_host="127.0.0.1", is_loopback=True)
        api = ApiService(DaemonControlPlane(server), access, broker.line_limit)
        async with TestClient(TestServer(create_application(broker, api))) as client:
            yield client
