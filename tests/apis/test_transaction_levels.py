"""The levels of `transaction.version`: the finalized one, and clients and directories with another one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import Client, serving
from tests.broker.transactor import TOPICS, Transactor

LEVELS = (0, 1, 2)


def at(level: int) -> Mapping[str, str]:
    """Properties of a server of a level."""
    return {"transaction.version": str(level), "transaction.state.log.num.partitions": "2"}


async def finalized(client: Client) -> int:
    """Return the finalized level in ApiVersions, 0 if it is absent."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(request, 3)
    levels: dict[str, int] = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels.get("transaction.version", 0)


@pytest.mark.parametrize("level", LEVELS)
async def test_clients_of_a_level_and_those_that_know_none_have_transactions(level: int) -> None:
    async with serving(None, at(level), topics=TOPICS) as server, Client(server) as client:
        assert await finalized(client) == level
        both = [Transactor("told", level=level), Transactor("old", level=0)]
        for each in both:
            await each.begin(client)
        for commits in (True, False, True):
            for each in both:
                await each.write(client)
            for each in both:
                await each.end(client, commits=commits)
        for each in both:
            each.promises.check(await each.look(client))


@pytest.mark.parametrize("then", LEVELS)
@pytest.mark.parametrize("first", LEVELS)
async def test_a_directory_of_one_level_is_served_at_another(tmp_path: Path, first: int, then: int) -> None:
    """A client that learns of the new level continues its open transaction; a new client aborts it."""
    going_on, left = Transactor("goes-on", level=first), Transactor("left", level=first)
    async with serving(tmp_path, at(first), topics=TOPICS) as server, Client(server) as client:
        for each in (going_on, left):
            await each.begin(client)
            await each.transact(client)
            await each.write(client)
    async with serving(tmp_path, at(then), topics=TOPICS) as server, Client(server) as client:
        for each in (going_on, left):
            each.learn(then)
        await going_on.end(client)
        await left.begin(client)
        for each in (going_on, left):
            await each.transact(client)
            each.promises.check(await each.look(client))
