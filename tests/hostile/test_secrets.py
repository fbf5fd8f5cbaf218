"""Passwords, keys and values derived from them are in no output of the daemon and its commands.

The test starts a daemon with one of each, logs in, gets refused, changes and queries everything. Then it
searches all output, and the command lines that the system shows.
"""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from coordinator.broker.server_settings import ServerSettings
from coordinator.config.properties import parse_config
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.harness import Client, settings
from tests.cli.test_serve import clean_environment, groupd
from tests.crash.process import Process
from tests.free_ports import free_ports
from tests.security.server.certificates import Identity, trusting
from tests.security.server.sasl_server import choose, log_in, plain_token, show

ALICE: Final = "hush-alice-plain"
GUESS: Final = "hush-a-guess"
SCRAM: Final = "hush-bob-scram"
KEY: Final = "hush-key-password"
STORE: Final = "hush-store-password"
ALTERED: Final = "hush-altered"
SALTED: Final = b"hush-salted-password-0123456789-"
HUSH: Final = "hush"
"""All of them have it."""
BROKER: Final = 4
NAMES: Final = (
    *("sasl.jaas.config", "listener.name.sasl_ssl.plain.sasl.jaas.config"),
    *("ssl.key.password", "nonsense"),
)
"""Values of configs that a client tries to set."""
AUTHORITY: Final = Identity.authority()
SERVER: Final = AUTHORITY.sign("CN=localhost", ("localhost", "127.0.0.1"))
LISTENERS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")


def jaas(password: str = ALICE) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="broker" password="hush-between" user_alice="{password}";'


def properties(directory: Path, ports: list[int]) -> dict[str, str]:
    """Of a daemon that has a secret of each kind."""
    pem, p12 = directory / "server.pem", directory / "server.p12"
    pem.write_text(SERVER.key_pem(KEY) + SERVER.chain_pem)
    p12.write_bytes(SERVER.pkcs12(STORE))
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in zip(LISTENERS, ports, strict=True)
        ),
        "listener.name.ssl.ssl.keystore.type": "PKCS12",
        "listener.name.ssl.ssl.keystore.location": str(p12),
        "listener.name.ssl.ssl.keystore.password": STORE,
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "listener.name.sasl_ssl.ssl.keystore.location": str(pem),
        "listener.name.sasl_ssl.ssl.key.password": KEY,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas(),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": "0",
    }


def written(path: Path, of: dict[str, str]) -> str:
    """A properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in of.items()))
    return str(path)


@asynccontextmanager
async def daemon(directory: Path, ports: dict[str, int]) -> AsyncIterator[Process]:
    file = written(directory / "server.properties", properties(directory, list(ports.values())))
    listens = [word for name, port in ports.items() for word in ("--listen", f"{name}://127.0.0.1:{port}")]
    options = ("--profile", "test", "--log-level", "debug", "--config", file, *listens[2:])
    process = await Process.start(directory / "data", directory / "log", options)
    try:
        await process.ready()
        yield process
        process.terminate()
        assert await process.ended() == 0
    finally:
        await process.kill()


async def logins(ports: dict[str, int]) -> None:
    """Log in with correct and wrong credentials, by each mechanism, and send bytes to the wrong listeners."""
    tls = trusting(AUTHORITY)
    for name in ("SASL_PLAINTEXT", "SASL_SSL"):
        context = tls if name == "SASL_SSL" else None
        for user, password, mechanism, version in (
            ("alice", ALICE, "PLAIN", 2),
            ("alice", GUESS, "PLAIN", 1),
            ("nobody", GUESS, "PLAIN", 0),
            ("bob", SCRAM, "SCRAM-SHA-256", 2),
            ("bob", GUESS, "SCRAM-SHA-512", 2),
            (GUESS, SCRAM, "SCRAM-SHA-512", 2),
        ):
            async with Client(port=ports[name], tls=context) as client:
                answer = await log_in(client, user, password, mechanism, version)
                assert (answer.error_code == ErrorCode.NONE) == (password in (ALICE, SCRAM) and user != GUESS)
                assert HUSH not in str(answer.error_message)
    for token in (b"hush", b"hush\0hush\0hush\0hush", b"\0alice\0" + b"hush" * 10_000, b"\0\0hush"):
        for version in (0, 1):
            async with Client(port=ports["SASL_PLAINTEXT"]) as client:
                await choose(client, "PLAIN", version)
                if version:
                    assert HUSH not in str((await show(client, token)).error_message)
                else:
                    client.writer.write(len(token).to_bytes(4, "big") + token)
                assert await client.closed()
    for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL"):
        frame = Client(port=1).frame(SaslAuthenticateRequest(auth_bytes=plain_token(password=ALICE)), 2)
        for sent in (
            frame,
            frame[4:],
            plain_token(password=ALICE),
            b"\0\0\0\x20" + plain_token(password=ALICE) * 2,
        ):
            async with Client(port=ports[name]) as client:
                client.writer.write(sent)
                client.writer.write_eof()
                await client.reader.read(4096)


async def changes(port: int) -> list[object]:
    """Whatever an admin may do with secrets; the answers."""
    answers: list[object] = []

    def upsert(user: str, iterations: int) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=user, mechanism=1, iterations=iterations, salt=b"hush-salt", salted_password=SALTED
        )

    async with Client(port=port) as client:
        for user, iterations in (("carol", 4096), ("carol", 1), ("", 4096)):
            upserted = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsert(user, iterations)])
            answers.append(await client.call(upserted, 0))
        for name in NAMES:
            altered = AlterConfigsResource(
                resource_type=BROKER,
                resource_name="1",
                configs=[AlterableConfig(name=name, config_operation=0, value=jaas(ALTERED))],
            )
            request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=False)
            answers.append(await client.call(request, 1))
            made = CreatableTopic(
                name="made",
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=name, value=jaas(ALTERED))],
            )
            created = CreateTopicsRequest(topics=[made], timeout_ms=1000, validate_only=True)
            answers.append(await client.call(created, 7))
        for keys in (None, [*NAMES, "ssl.keystore.password"]):
            asked = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=keys)
            described = DescribeConfigsRequest(
                resources=[asked], include_synonyms=True, include_documentation=True
            )
            answers.append(await client.call(described, 4))
    return answers


def pages(port: int) -> list[str]:
    """Return the pages of the HTTP port, also of unknown paths."""
    found = []
    for path in ("/", "/ready", "/metrics", "/v1", "/v1/groups", "/v1/groups/nobody", f"/{GUESS[:3]}"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                found.append(answer.read().decode())
        except urllib.error.HTTPError as error:
            found.append(error.read().decode())
    return found


def made_of(directory: Path) -> list[str]:
    """Return the stored forms of passwords, in all encodings in which output could contain them."""
    kept = json.loads((directory / "data" / "security.json").read_text())["scram"]
    assert {each["user"] for each in kept} == {"bob", "carol"}
    texts = [each[name] for each in kept for name in ("stored_key", "server_key", "salt")]
    raw = [base64.b64decode(text) for text in texts] + [SALTED]
    pem = [line for line in SERVER.key_pem().splitlines() if "-----" not in line]
    return [*texts, *pem, *(each.hex() for each in raw), *(repr(each)[2:-1] for each in raw)]


def is_typed_at(process: subprocess.Popen[str]) -> str:
    """What everybody on the machine sees of a command."""
    return Path(f"/proc/{process.pid}/cmdline").read_text()


def add_user(port: int) -> str:
    """`groupd user add`, with a password on standard input; all that is seen of it."""
    command = [sys.executable, "-m", "coordinator", "user", "add", "bob", "--bootstrap", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(),
    ) as process:
        seen = is_typed_at(process)
        out, _ = process.communicate(f"{SCRAM}\n", timeout=60)
        assert process.returncode == 0, out
    return seen + out


async def test_no_secret_is_revealed(tmp_path: Path) -> None:
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    async with daemon(tmp_path, ports) as process:
        ports["PLAINTEXT"] = process.port
        told = [await asyncio.to_thread(add_user, ports["PLAINTEXT"])]
        await logins(ports)
        told += map(str, await changes(ports["PLAINTEXT"]))
        told += await asyncio.to_thread(pages, process.http_port)
        (tmp_path / "server.p12").write_bytes(SERVER.pkcs12("hush-another"))
        (tmp_path / "server.pem").write_text(SERVER.key_pem("hush-another") + SERVER.chain_pem)
        os.kill(process.process_id, signal.SIGHUP)
        while "keeps its certificate" not in (log := (tmp_path / "log").read_text()):
            async with Client(port=ports["PLAINTEXT"]) as client:
                await client.call(ListGroupsRequest(), 4)
        at = f"127.0.0.1:{ports['PLAINTEXT']}"
        for command in (("user", "list"), ("acl", "list"), ("groups",), ("user", "remove", "nobody")):
            ran = await asyncio.to_thread(groupd, *command, "--bootstrap", at)
            told.append(ran.stdout + ran.stderr)
    log = (tmp_path / "log").read_text()
    told.append(log)
    assert "the password is wrong" in log
    assert "Failed authentication" in log
    assert "DEBUG" in log
    secrets = made_of(tmp_path)
    for text in told:
        assert HUSH not in text
        assert not [secret for secret in secrets if secret in text]
    for name in ("security.json", "security.json.tmp"):
        path = tmp_path / "data" / name
        assert not path.exists() or path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "wrong",
    [
        {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas()[:-1]},
        {"listener.name.ssl.ssl.keystore.password": "hush-wrong"},
        {"listener.name.sasl_ssl.ssl.key.password": "hush-wrong"},
        {"listener.name.sasl_ssl.ssl.keystore.key": SERVER.key_pem("hush").replace("\n", " ")},
        {"ssl.key.password": "hush\\u0000"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_start_that_is_refused_tells_no_secret(tmp_path: Path, wrong: dict[str, str]) -> None:
    chosen = properties(tmp_path, [0] * len(LISTENERS)) | wrong
    file = written(tmp_path / "server.properties", chosen)
    ran = groupd("serve", "--config", file, "--data-dir", str(tmp_path / "data"), "--http", "off")
    assert ran.returncode != 0
    (line,) = ran.stderr.splitlines()[-1:]
    assert next(iter(wrong)).rpartition("ssl.")[2].partition("sasl.jaas")[0].split(".")[0] in line
    told = ran.stdout + ran.stderr
    assert HUSH not in told
    assert not [text for text in SERVER.key_pem().splitlines() if "-----" not in text and text in told]


def test_nothing_that_is_printed_of_settings_has_a_secret(tmp_path: Path) -> None:
    chosen = properties(tmp_path, [0] * len(LISTENERS))
    chosen |= {"ssl.key.password": "hush-general", "sasl.jaas.config": jaas()}
    how: ServerSettings = settings(tmp_path / "data", chosen)
    for each in (how, how.config, how.security, parse_config(chosen)):
        assert HUSH not in repr(each)
        assert HUSH not in str(each)
