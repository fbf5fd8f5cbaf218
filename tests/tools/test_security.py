"""kafka-acls, users in kafka-configs, and the tools that they let in or keep out, over SASL and TLS."""

import re
from collections.abc import Iterator

import pytest

from tests.interop.secured_broker import (
    FORBIDDEN_GROUP,
    FORBIDDEN_TOPIC,
    OPEN,
    SecuredBroker,
    secured_broker,
)
from tests.shared_fixtures import shared
from tests.tools.machine import Done, Machine
from tests.tools.secured_desk import ALICE, Login, SecuredDesk
from tests.tools.table import rows

pytestmark = pytest.mark.interop

MINE = f"{OPEN}topic"
BOB = Login("bob", "bob-secret", "SCRAM-SHA-256")
USER_BOB = ("kafka-configs", "--entity-type", "users", "--entity-name", "bob")


@shared(SecuredBroker.is_alive, scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(str(tmp_path_factory.mktemp("secured")), MINE) as broker:
        yield broker


@pytest.fixture
def desk(secured: SecuredBroker, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> SecuredDesk:
    return SecuredDesk(secured, machine, str(tmp_path_factory.mktemp("properties")))


def well(done: Done) -> str:
    """What a command printed that went well."""
    assert done.status == 0, done
    return done.out


def refused(done: Done, words: str) -> None:
    """Check that a command failed with this text."""
    assert done.status == 1, done
    assert words in done.out + done.err


def entries(printed: str) -> set[tuple[str, str]]:
    """The operations that kafka-acls lists, each with its principal."""
    return set(re.findall(r"principal=(\S+), host=\*, operation=(\w+), permissionType=ALLOW", printed))


def test_who_is_given_rights_can_produce_and_consume_until_they_are_taken(
    desk: SecuredDesk, topic: str, group: str
) -> None:
    well(desk.run("kafka-topics", "--create", "--topic", topic))
    produce = ("kafka-console-producer", "--topic", topic)
    consume = (
        *("kafka-console-consumer", "--topic", topic, "--group", group),
        *("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000"),
    )
    add = ("kafka-acls", "--add", "--allow-principal", "User:alice", "--topic", topic)
    remove = ("kafka-acls", "--remove", "--force", "--topic", topic)
    desk.run(*produce, by=ALICE, stdin="refused\n")
    assert "Processed a total of 0 messages" in desk.run(*consume, by=ALICE).err

    printed = well(desk.run(*add, "--producer"))
    assert entries(printed) == {("User:alice", each) for each in ("WRITE", "CREATE", "DESCRIBE")}
    well(desk.run(*add, "--consumer", "--group", group))
    desk.run(*produce, by=ALICE, stdin="written\n")
    assert desk.run(*consume, by=ALICE).out.split() == ["written"]
    (row,) = rows(well(desk.run("kafka-consumer-groups", "--describe", "--group", group, by=ALICE)))
    assert (row["TOPIC"], row["CURRENT-OFFSET"], row["LAG"]) == (topic, "1", "0")
    listed = well(desk.run("kafka-acls", "--list", "--topic", topic))
    assert entries(listed) == {("User:alice", each) for each in ("WRITE", "CREATE", "DESCRIBE", "READ")}
    listed = well(desk.run("kafka-acls", "--list", "--principal", "User:alice"))
    assert f"name={topic}, patternType=LITERAL" in listed
    assert f"name={OPEN}, patternType=PREFIXED" in listed

    well(desk.run(*remove, "--allow-principal", "User:alice", "--producer"))
    assert entries(well(desk.run("kafka-acls", "--list", "--topic", topic))) == {("User:alice", "READ")}
    well(desk.run(*remove))
    assert not well(desk.run("kafka-acls", "--list", "--topic", topic)).strip()
    assert "Processed a total of 0 messages" in desk.run(*consume, by=ALICE).err


def test_a_user_is_made_and_unmade(desk: SecuredDesk) -> None:
    credential = "SCRAM-SHA-256=[iterations=8192,password=bob-secret]"
    listing = ("kafka-topics", "--list")
    cannot = "Authentication failed during authentication due to invalid credentials"
    refused(desk.run(*listing, by=BOB), cannot)
    assert "Completed updating config for user bob" in well(
        desk.run(*USER_BOB, "--alter", "--add-config", credential)
    )
    well(desk.run(*listing, by=BOB))
    refused(desk.run(*listing, by=Login("bob", "bob-mistake", "SCRAM-SHA-256")), cannot)
    refused(desk.run(*listing, by=Login("bob", "bob-secret", "SCRAM-SHA-512")), cannot)
    well(desk.run(*USER_BOB, "--alter", "--delete-config", "SCRAM-SHA-256"))
    refused(desk.run(*listing, by=BOB), cannot)
    again = desk.run(*USER_BOB, "--alter", "--delete-config", "SCRAM-SHA-256")
    refused(again, "Attempt to delete a user credential that does not exist")


def test_users_are_described_with_their_credentials(desk: SecuredDesk) -> None:
    well(
        desk.run(*USER_BOB, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=5000,password=bob-secret]")
    )
    everybody = well(desk.run("kafka-configs", "--entity-type", "users", "--describe"))
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=5000" in everybody
    assert "bob-secret" not in everybody
    well(desk.run(*USER_BOB, "--alter", "--delete-config", "SCRAM-SHA-256"))
    refused(
        desk.run("kafka-configs", "--entity-type", "users", "--describe", by=ALICE), "ClusterAuthorization"
    )


def test_two_mechanisms_at_once_are_refused_as_by_kafka(desk: SecuredDesk) -> None:
    both = "SCRAM-SHA-256=[password=bob-secret],SCRAM-SHA-512=[password=bob-secret]"
    refused(desk.run(*USER_BOB, "--alter", "--add-config", both), "DuplicateResourceException")


def test_who_may_not_administer_is_told_so(desk: SecuredDesk, topic: str) -> None:
    cannot = "ClusterAuthorizationException"
    everything = ("--allow-principal", "User:alice", "--operation", "All", "--topic", "*")
    refused(desk.run("kafka-acls", "--list", by=ALICE), cannot)
    refused(desk.run("kafka-acls", "--add", *everything, by=ALICE), cannot)
    assert not entries(well(desk.run("kafka-acls", "--list", "--topic", "*")))
    credential = "SCRAM-SHA-256=[password=bob-secret]"
    refused(desk.run(*USER_BOB, "--alter", "--add-config", credential, by=ALICE), cannot)
    refused(desk.run("kafka-topics", "--create", "--topic", topic, by=ALICE), "uthorization failed")
    refused(desk.run("kafka-topics", "--delete", "--topic", MINE, by=ALICE), "Topic authorization failed")
    describe = ("kafka-consumer-groups", "--describe", "--group", FORBIDDEN_GROUP)
    assert "GroupAuthorizationException" in desk.run(*describe, by=ALICE).out


def test_what_somebody_may_not_see_is_not_there(desk: SecuredDesk) -> None:
    assert FORBIDDEN_TOPIC in well(desk.run("kafka-topics", "--list")).split()
    assert well(desk.run("kafka-topics", "--list", by=ALICE)).split() == [MINE]
    refused(desk.run("kafka-topics", "--describe", "--topic", FORBIDDEN_TOPIC, by=ALICE), "does not exist")
    describe_hers = ("kafka-topics", "--describe", "--topic", MINE)
    refused(
        desk.run(*describe_hers, by=ALICE), "Topic authorization failed"
    )  # it asks for the configs as well
    add = ("kafka-acls", "--add", "--allow-principal", "User:alice", "--topic", MINE)
    well(desk.run(*add, "--operation", "DescribeConfigs"))
    assert f"Topic: {MINE}" in well(desk.run(*describe_hers, by=ALICE))
