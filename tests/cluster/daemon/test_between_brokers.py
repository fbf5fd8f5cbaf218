"""Brokers that must authenticate to each other: transactions continue, or wait and are not lost."""

import asyncio
import logging
from collections import Counter
from pathlib import Path

import pytest

from coordinator.security.core.sasl_mechanisms import ScramMechanism
from tests.broker.transactor import Transactor
from tests.cluster.daemon.cluster_daemons import Daemons, daemons_with, eventually
from tests.cluster.daemon.routed import Routed
from tests.cluster.daemon.secured import (
    BROKER,
    HOSTS,
    by_certificate,
    by_password,
    certified,
    internal,
    keep_brokers_out,
    let_brokers_in,
    let_clients_in,
    set_password,
)
from tests.cluster.daemon.spread import coordinator_of, spread
from tests.security.server.certificates import Identity

SCRAM_512 = ScramMechanism.SCRAM_SHA_512


async def transacts(cluster: Daemons, level: int = 2) -> None:
    """A commit and an abort that concern every broker."""
    await let_clients_in(cluster)
    transactor, client = await spread(cluster, level)
    await transactor.begin(client)
    await transactor.transact(client)
    await transactor.transact(client, commits=False)
    transactor.promises.settle(await transactor.look(client))
    assert transactor.promises.committed == {1}


def logins(cluster: Daemons, mechanism: str) -> int:
    """How many brokers have let in others."""
    counts = [daemon.server.metrics.authentications for daemon in cluster.by_id.values()]
    return sum(each.succeeded["INTERNAL", mechanism] > 0 for each in counts)


@pytest.mark.parametrize("level", [0, 2])
async def test_brokers_know_each_other_by_their_certificates(tmp_path: Path, level: int) -> None:
    properties = internal("SSL", **certified(tmp_path / "stores"))
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await transacts(cluster, level)


async def test_brokers_log_in_with_a_password_of_their_properties(tmp_path: Path) -> None:
    properties = internal("SASL_PLAINTEXT", **by_password("PLAIN"))
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await transacts(cluster)
        assert logins(cluster, "PLAIN") == 3


@pytest.mark.parametrize("mechanism", ScramMechanism)
async def test_brokers_log_in_as_users_of_the_cluster_over_tls(
    tmp_path: Path, mechanism: ScramMechanism
) -> None:
    name = mechanism.mechanism_name
    properties = internal("SASL_SSL", **by_password(name), **certified(tmp_path / "stores"))
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await set_password(cluster, mechanism)
        await transacts(cluster)
        assert logins(cluster, name) == 3


async def test_the_protocol_names_the_listener(tmp_path: Path) -> None:
    properties = internal("SSL", **certified(tmp_path / "stores"))
    del properties["inter.broker.listener.name"], properties["listener.security.protocol.map"]
    properties |= {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
    }
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await transacts(cluster)


async def test_a_certificate_of_another_host_is_taken_where_hosts_are_not_looked_at(tmp_path: Path) -> None:
    authority = Identity.authority()
    stores = by_certificate(tmp_path / "stores", authority.sign(BROKER, ("elsewhere.example",)), authority)
    properties = internal("SSL", **stores, **{"ssl.endpoint.identification.algorithm": ""})
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await transacts(cluster)


# The failure is logged once, and the recovery, too.


def told(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """The lines about other brokers."""
    return Counter(
        record.getMessage()
        for record in caplog.records
        if record.name == "Cluster" and record.levelno == logging.ERROR
    )


async def waiting(
    cluster: Daemons, caplog: pytest.LogCaptureFixture, count: int
) -> "asyncio.Task[Transactor]":
    """A transaction that waits for brokers which do not get on, so many pairs of them: each has a line."""
    await let_clients_in(cluster)

    async def transact() -> Transactor:
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.transact(client)
        transactor.promises.settle(await transactor.look(client))
        return transactor

    task = asyncio.create_task(transact())
    await eventually(lambda: task.done() or told(caplog).total() >= count)
    assert not task.done(), "it did not wait"
    return task


async def test_a_wrong_password_keeps_transactions_waiting_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = internal("SASL_PLAINTEXT", **by_password("SCRAM-SHA-512"))
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await set_password(cluster, SCRAM_512, "another")
        task = await waiting(cluster, caplog, 1)
        counts = [daemon.server.metrics.authentications.failed for daemon in cluster.by_id.values()]
        tried = sum(each.total() for each in counts)
        await eventually(lambda: sum(each.total() for each in counts) > tried + 3)
        assert not task.done()
        assert set(told(caplog).values()) == {1}
        await set_password(cluster, SCRAM_512)
        transactor = await task
        assert transactor.promises.committed == {1}


async def test_a_certificate_that_others_do_not_trust_keeps_transactions_waiting_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, stranger = Identity.authority(), Identity.authority("CN=stranger")
    good = authority.sign(BROKER, HOSTS)
    known = internal("SSL", **by_certificate(tmp_path / "stores", good, authority))
    other = tmp_path / "other"
    unknown = internal("SSL", **by_certificate(other, stranger.sign(BROKER, HOSTS), authority, stranger))
    async with daemons_with((), tmp_path, 2, **known) as cluster:
        await cluster.start(3, **unknown)
        await eventually(cluster.is_placed)
        task = await waiting(cluster, caplog, 1)
        by_certificate(other, good, authority, stranger)
        cluster.by_id[3].server.brokers.reload_listeners()
        transactor = await task
        assert transactor.promises.committed == {1}
        assert set(told(caplog).values()) == {1}


async def test_brokers_without_the_right_keep_transactions_waiting_until_they_have_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = internal("SASL_PLAINTEXT", **by_password("PLAIN"), **{"super.users": "User:nobody"})
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        task = await waiting(cluster, caplog, 1)
        await let_brokers_in(cluster)
        transactor = await task
        assert transactor.promises.committed == {1}


async def test_a_marker_that_is_denied_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = internal("SASL_PLAINTEXT", **by_password("PLAIN"), **{"super.users": "User:nobody"})
    async with daemons_with((), tmp_path, 3, **properties) as cluster:
        await let_clients_in(cluster)
        await let_brokers_in(cluster)
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.write(client)
        await keep_brokers_out(cluster)
        await transactor.end(client)
        await eventually(lambda: told(caplog).total() > 0)
        coordinator = await coordinator_of(cluster, client, transactor)
        parts = coordinator.server.transactions.coordinator
        assert parts is not None
        assert len(parts.markers) == 1
        await let_brokers_in(cluster)
        transactor.promises.settle(await transactor.look(client))
        assert transactor.promises.committed == {1}
        await transactor.transact(client)
        assert set(told(caplog).values()) == {1}


async def test_a_broker_that_comes_back_with_the_right_password_is_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    right = internal("SASL_PLAINTEXT", **by_password("PLAIN"))
    wrong = internal("SASL_PLAINTEXT", **by_password("PLAIN", "another"))
    async with daemons_with((), tmp_path, 2, **right) as cluster:
        await cluster.start(3, **wrong)
        await eventually(cluster.is_placed)
        task = await waiting(cluster, caplog, 1)
        await cluster.kill(cluster.by_id[3])
        await cluster.start(3, **right)
        transactor = await task
        transactor.promises.settle(await transactor.look(Routed(cluster)))
        assert transactor.promises.committed == {1}
