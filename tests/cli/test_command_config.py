"""Commands that connect to TLS and SASL listeners with a client properties file."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.broker.client_security import parse_client_security
from tests.cli.in_process import run_groupd
from tests.cli.test_serve import TIMEOUT_S, Daemon, clean_environment, groupd
from tests.free_ports import free_ports
from tests.readme.terminal import Terminal
from tests.security.server.certificates import PASSWORD, Identity
from tests.shared_fixtures import shared

AUTHORITY = Identity.authority()
SERVER = AUTHORITY.sign("CN=localhost", ("localhost", "127.0.0.1"))
ALICE = AUTHORITY.sign("CN=alice")
SECRET = "admin-secret"
NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TRUST = "ssl.truststore.type=PEM\nssl.truststore.location=authority.pem\n"
KEY = "ssl.keystore.type=PEM\nssl.keystore.location=alice.pem\n"


def jaas(mechanism: str, rest: str = f'username="admin" password="{SECRET}"') -> str:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    config = f"org.apache.kafka.common.security.{module}LoginModule required {rest};"
    return f"sasl.mechanism={mechanism}\nsasl.jaas.config={config}\n"


class SecuredDaemon(Daemon):
    """One with a listener of each protocol; the properties files lie in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        for identity, name in ((SERVER, "server.pem"), (ALICE, "alice.pem")):
            (directory / name).write_text(identity.pem)
        (directory / "authority.pem").write_text(AUTHORITY.certificate_pem)
        (directory / "alice.p12").write_bytes(ALICE.pkcs12())
        users = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{SECRET}";'
        properties = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "authority.pem"),
            "ssl.client.auth": "required",
            "http.tls.certificate": str(directory / "server.pem"),
            "http.tls.key": str(directory / "server.pem"),
            "control.token": "control-secret",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:CN=alice",
        }
        config = directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        data = directory / "data"
        data.mkdir()
        added = groupd("user", "add", "admin", "--data-dir", str(data), given=SECRET)
        assert (added.returncode, added.stderr) == (0, "")
        super().__init__(
            *("--config", str(config), "--data-dir", str(data), "--http", "127.0.0.1:0"), "--profile", "test"
        )

    def run(self, *arguments: str, config: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command in that directory, with a properties file of this text."""
        if config is not None:
            (self.directory / "client.properties").write_text(config)
            arguments = (*arguments, "--command-config", "client.properties")
        return run_groupd(*arguments, directory=self.directory)

    def at(self, name: str) -> str:
        return f"localhost:{self.ports[name]}"


@shared(Daemon.is_alive, scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDaemon]:
    daemon = SecuredDaemon(tmp_path_factory.mktemp("secured"))
    yield daemon
    code, _, err = daemon.stop()
    assert code == 0
    assert "Traceback" not in err
    assert SECRET not in err


WAYS = {
    "TLS with a certificate in PEM": ("SSL", TRUST + KEY),
    "TLS with a certificate in PKCS12": (
        "SSL",
        f"{TRUST}ssl.keystore.location=alice.p12\nssl.keystore.password={PASSWORD}\n",
    ),
    **{
        f"{mechanism} over {protocol}": (protocol, TRUST + jaas(mechanism))
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
}


@pytest.mark.parametrize(("protocol", "config"), WAYS.values(), ids=WAYS)
def test_a_command_is_let_in(daemon: SecuredDaemon, protocol: str, config: str) -> None:
    config += f"security.protocol={protocol}\n"
    listed = daemon.run("user", "list", "--bootstrap-server", daemon.at(protocol), config=config)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "admin" in listed.stdout


def test_a_ping_connects_and_logs_in(daemon: SecuredDaemon) -> None:
    config = f"security.protocol=SASL_SSL\n{TRUST}{jaas('SCRAM-SHA-512')}"
    assert daemon.run("ping", daemon.at("SASL_SSL"), config=config).returncode == 0
    wrong = daemon.run("ping", daemon.at("SASL_SSL"), config=config.replace(SECRET, "mistake"))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "SASL_AUTHENTICATION_FAILED" in wrong.stderr
    assert "mistake" not in wrong.stderr
    plain = daemon.run("ping", daemon.at("SSL"))
    assert plain.returncode == 1
    assert "--command-config" in plain.stderr


REFUSALS = {
    "no file for TLS": ("SSL", None, 3, "--command-config"),
    "no file for SASL": ("SASL_PLAINTEXT", None, 3, "--command-config"),
    "anonymous client without authentication": ("PLAINTEXT", None, 1, "CLUSTER_AUTHORIZATION_FAILED"),
    "a wrong password": (
        "SASL_PLAINTEXT",
        jaas("SCRAM-SHA-512").replace(SECRET, "mistake"),
        1,
        "SASL_AUTHENTICATION_FAILED",
    ),
    "no certificate": ("SSL", TRUST, 3, "certificate"),
    "a broker that is not trusted": ("SSL", KEY, 3, "ssl.truststore.location"),
    "TLS at a listener without TLS": ("SASL_PLAINTEXT", TRUST + jaas("PLAIN") + "#TLS", 3, "TLS"),
    "SASL at a listener without SASL": ("PLAINTEXT", jaas("PLAIN") + "#SASL", 1, "does not use SASL"),
}


@pytest.mark.parametrize(("name", "config", "code", "why"), REFUSALS.values(), ids=REFUSALS)
def test_a_refused_connection_is_explained_in_one_line(
    daemon: SecuredDaemon, name: str, config: str | None, code: int, why: str
) -> None:
    if config is not None:
        protocol = {"#TLS": "SASL_SSL", "#SASL": "SASL_PLAINTEXT"}.get("#" + config.rpartition("#")[2], name)
        config = f"security.protocol={protocol}\n{config}"
    result = daemon.run("acl", "list", "--bootstrap", daemon.at(name), config=config)
    assert (result.returncode, result.stdout) == (code, "")
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert "mistake" not in result.stderr


def test_a_missing_password_is_prompted_for(daemon: SecuredDaemon) -> None:
    config = f"security.protocol=SASL_PLAINTEXT\n{jaas('SCRAM-SHA-256', 'username=admin')}"
    result = daemon.run("user", "list", "--bootstrap", daemon.at("SASL_PLAINTEXT"), config=config)
    assert result.returncode == 2
    assert "no password" in result.stderr
    terminal = Terminal(daemon.directory, clean_environment(PYTHONPATH=str(Path(__file__).parents[2])))
    try:
        mark = terminal.mark()
        asked = f"{sys.executable} -m coordinator ping {daemon.at('SASL_PLAINTEXT')}"
        terminal.paste(f"{asked} --command-config client.properties\n")
        terminal.wait(re.compile("Password of .*admin"), mark, TIMEOUT_S)
        terminal.paste(f"{SECRET}\n")
        terminal.wait(re.compile("answers and serves"), mark, TIMEOUT_S)
        assert SECRET not in terminal.since(mark)
    finally:
        terminal.close()


def test_commands_connect_to_https(daemon: SecuredDaemon) -> None:
    url = f"https://localhost:{daemon.http_port}"
    trusting = ("--ca-file", str(daemon.directory / "authority.pem"))
    refused = run_groupd("groups", "list", "--url", url, *trusting)  # it has an authorizer
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "token" in refused.stderr
    asked = run_groupd("groups", "list", "--url", url, *trusting, GROUPD_TOKEN="control-secret")
    assert (asked.returncode, asked.stderr) == (0, "")
    reset = ("groups", "delete", "nothing", "--url", url, *trusting)
    assert "token" in run_groupd(*reset).stderr
    known = run_groupd(*reset, GROUPD_TOKEN="control-secret")
    assert "nothing" in known.stderr
    assert "token" not in known.stderr
    stranger = run_groupd("groups", "list", "--url", url)
    assert (stranger.returncode, stranger.stdout) == (3, "")
    assert "--ca-file" in stranger.stderr
    plain = run_groupd("groups", "list", "--url", url.replace("https", "http"))
    assert plain.returncode == 3
    assert "https" in plain.stderr
    bad = run_groupd("groups", "list", "--url", url, "--ca-file", str(daemon.directory / "server.properties"))
    assert bad.returncode == 2
    assert "PEM" in bad.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("security.protocol=TLS", "security.protocol=TLS"),
        ("security.protocol=SASL_SSL", "sasl.mechanism"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "not OAUTHBEARER"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config"),
        ("security.protocol=SASL_SSL\n" + jaas("PLAIN", 'user_a="secret"'), "username"),
        ("security.protocol=SASL_SSL\n" + jaas("PLAIN", 'username="a" password="secret'), "line 1"),
        ("security.protocol=SSL\nssl.truststore.type=DER", "ssl.truststore.type=DER"),
        ("security.protocol=SSL\nssl.keystore.key=secret", "ssl.keystore.certificate.chain"),
        ("security.protocol=SSL\nssl.enabled.protocols=SSLv3", "TLSv1.3"),
    ],
)
def test_an_invalid_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_client_security(text)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    config = f"security.protocol=SASL_SSL\n{jaas('PLAIN')}ssl.key.password={SECRET}\n"
    assert SECRET not in repr(parse_client_security(config))


def test_unrelated_client_properties_are_ignored() -> None:
    client = parse_client_security("bootstrap.servers=a:1\nclient.id=x\nssl.truststore.type=DER\n")
    assert (client.tls, client.login) == (None, None)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    for command in (("acl", "list"), ("user", "list"), ("ping", "127.0.0.1:1")):
        result = run_groupd(*command, "--command-config", str(tmp_path / "nothing"))
        assert (result.returncode, result.stdout) == (2, "")
        assert "no such file" in result.stderr


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_kafkas_tools_reach_a_secured_broker(daemon: SecuredDaemon, protocol: str) -> None:
    login = KEY if protocol == "SSL" else jaas("SCRAM-SHA-256")
    config = f"security.protocol={protocol}\n{TRUST}{login}"
    at = ("--bootstrap-server", daemon.at(protocol))
    for words in (("kafka-topics", "--list"), ("kafka-acls", "--list"), ("kafka-broker-api-versions",)):
        result = daemon.run("kafka-tools", *words, *at, config=config)
        assert (result.returncode, result.stderr) == (0, "")
    wrong = config.replace(SECRET, "mistake").replace("alice.pem", "authority.pem")
    refused = daemon.run("kafka-tools", "kafka-topics", "--list", *at, config=wrong)
    assert refused.returncode == 1
    assert "mistake" not in refused.stderr + refused.stdout
