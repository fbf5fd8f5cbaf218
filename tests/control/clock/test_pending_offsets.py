"""The time of a group, and transactions that have offsets pending in it: they go by the process's time."""

from contextlib import AsyncExitStack

import pytest

from coordinator.control.control import Control
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from tests.control.clock.living_member import GROUP, all_settled, members_of, there
from tests.control.clock.test_advance import HOUR_MS, SESSION_MS, advance
from tests.server.harness import Client
from tests.server.transactor import NOTHING, Transactor

DAY_MS = 24 * HOUR_MS
WEEKS_MS = 15 * DAY_MS
