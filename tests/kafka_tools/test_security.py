"""kafka-acls and kafka-configs for users, beyond what the recorded stories show."""

from pathlib import Path

import pytest

from tests.kafka_tools.calls import TIMEOUT_S, run_tool, run_well, start_tool
from tests.kafka_tools.player import StoryBrokers
from tests.security.server.certificates import self_signed_pem


@pytest.fixture
def secured(brokers: StoryBrokers) -> str:
    """The address of the broker with an authorizer."""
    return brokers.bootstrap("acls")


@pytest.mark.parametrize(("answer", "is_removed"), [("y", True), ("Y", True), ("n", False), ("", False)])
def test_acls_are_removed_where_the_answer_is_yes(secured: str, answer: str, is_removed: bool) -> None:
    acl = ("--allow-principal", "User:asked", "--operation", "Read", "--topic", "asked")
    run_well("kafka-acls", "--bootstrap-server", secured, "--add", *acl)
    removed = run_well("kafka-acls", "--bootstrap-server", secured, "--remove", *acl, stdin=f"{answer}\n")
    assert "Are you sure you want to remove ACLs" in removed
    listed = run_well("kafka-acls", "--bootstrap-server", secured, "--list", "--topic", "asked")
    # The recorded story of ACLs starts without any on this broker.
    run_well("kafka-acls", "--bootstrap-server", secured, "--remove", "--force", *acl)
    assert ("User:asked" in listed) is not is_removed


def test_both_credentials_of_a_user_are_set_by_one_call(secured: str) -> None:
    """The call of Kafka's documentation, which Kafka's own tool sends as one request that brokers refuse."""
    credentials = "SCRAM-SHA-256=[iterations=8192,password=two-secret],SCRAM-SHA-512=[password=two-secret]"
    user = ("--bootstrap-server", secured, "--entity-type", "users", "--entity-name", "two")
    assert "Completed" in run_well("kafka-configs", *user, "--alter", "--add-config", credentials)
    described = run_well("kafka-configs", *user, "--describe")
    assert "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in described
    both = ("--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    run_well("kafka-configs", *user, *both)
    assert run_well("kafka-configs", *user, "--describe") == ""


def test_a_password_is_not_printed_with_an_error(secured: str) -> None:
    credential = "SCRAM-SHA-256=[iterations=999999,password=hush]"
    user = ("--bootstrap-server", secured, "--entity-type", "users", "--entity-name", "eve")
    result = run_tool("kafka-configs", [*user, "--alter", "--add-config", credential])
    assert result.status == 1
    assert "UnacceptableCredentialException" in result.err
    assert "hush" not in result.err


def test_no_warning_of_a_library_is_printed(bootstrap: str, tmp_path: Path) -> None:
    """The truststore has a certificate with the country Unknown, which keytool suggests."""
    store, config = tmp_path / "trust.pem", tmp_path / "client.properties"
    with pytest.warns(UserWarning, match="length"):
        store.write_bytes(self_signed_pem("Unknown"))
    config.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={store}\n"
        "default.api.timeout.ms=1\n"
    )
    call = ("--bootstrap-server", bootstrap, "--list", "--command-config", str(config))
    tool = start_tool("kafka-topics", *call)
    out, err = tool.communicate(timeout=TIMEOUT_S)
    assert tool.returncode == 1
    assert "Error while executing topic command" in out
    assert err == ""
