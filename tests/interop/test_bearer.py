"""Clients of four code bases with OAUTHBEARER tokens, unsigned and of an identity provider, and refused tokens."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from coordinator.config.security_properties import OAUTH_VALIDATORS
from tests.cli.test_serve import Daemon
from tests.interop.broker import eventually
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_log.artifacts import tools
from tests.security.core.tokens import OTHER_RSA, RSA, jwks, signed, unsecured
from tests.shared_fixtures import shared

pytestmark = pytest.mark.interop

_LISTENER: Final = (
    "-o",
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "-o",
    "sasl.enabled.mechanisms=OAUTHBEARER",
)
_SECURED: Final = (
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=" + OAUTH_VALIDATORS[0],
    "sasl.oauthbearer.expected.audience=groupd",
    "sasl.oauthbearer.expected.issuer=https://id.example",
)


PATIENCE_S: Final = 60.0


def until(found: Callable[[], object]) -> Any:
    """Asks until there is something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (what := found()) is not None:
            return what
    raise AssertionError("nothing came")


def claims(life_s: int = 600) -> dict[str, Any]:
    now_s = int(time.time())
    return {
        "sub": "alice",
        "iat": now_s - 60,
        "exp": now_s + life_s,
        "aud": "groupd",
        "iss": "https://id.example",
    }


def started(directory: Path, *more: str) -> Iterator[Daemon]:
    daemon = Daemon(
        *(
            "--data-dir",
            str(directory),
            "--http",
            "127.0.0.1:0",
            "--profile",
            "test",
            "--topic",
            "orders:2",
            *_LISTENER,
        ),
        *(word for each in more for word in ("-o", each)),
    )
    yield daemon
    code, _, err = daemon.stop()
    assert code == 0
    assert "Traceback" not in err
    assert "eyJ" not in err, "a token begins so"


@shared(Daemon.is_alive, scope="module")
def unsecured_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    yield from started(tmp_path_factory.mktemp("data"))


@shared(Daemon.is_alive, scope="module")
def secured_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("data")
    keys = directory / "keys.json"
    keys.write_text(json.dumps(jwks(RSA)))
    endpoint = f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}"
    yield from started(directory / "data", endpoint, *_SECURED)


def librdkafka(daemon: Daemon, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{daemon.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "log_level": 0,
        **more,
    }


def python_client(daemon: Daemon, provider: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"127.0.0.1:{daemon.port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def test_librdkafka_makes_its_own_token(unsecured_daemon: Daemon) -> None:
    own = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=alice"}
    consumer = Consumer({**librdkafka(unsecured_daemon, **own), "group.id": "tokens"})
    try:
        consumer.subscribe(["orders"])
        assert len(until(lambda: consumer.poll(0.2) or consumer.assignment() or None)) == 2
    finally:
        consumer.close()


def test_librdkafka_shows_a_signed_token_and_a_new_one_in_time(secured_daemon: Daemon) -> None:
    shown: list[str] = []

    def token(_: str) -> tuple[str, float]:
        shown.append(signed(RSA, claims(4)))
        return shown[-1], time.time() + 4

    consumer = Consumer({**librdkafka(secured_daemon, oauth_cb=token), "group.id": "signed"})
    errors: list[Any] = []
    try:
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.2) or consumer.assignment() or None)

        def has_shown_three() -> bool | None:
            message = consumer.poll(0.2)
            if message is not None:
                errors.append(message.error())
            return len(shown) >= 3 or None

        until(has_shown_three)
        assert consumer.list_topics(timeout=PATIENCE_S).topics.keys() >= {"orders"}
        assert not errors
    finally:
        consumer.close()


def test_librdkafka_gets_the_refusal_of_a_token(secured_daemon: Daemon) -> None:
    errors: list[str] = []
    how = librdkafka(
        secured_daemon,
        oauth_cb=lambda _: (signed(OTHER_RSA, claims()), time.time() + 600),
        error_cb=lambda error: errors.append(error.str()),
    )
    admin = AdminClient(how)

    def has_heard() -> bool:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
        return any("invalid_token" in error for error in errors)

    eventually("librdkafka to report invalid_token", has_heard, lambda: errors)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class AiokafkaTokens(AiokafkaTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def test_kafka_python_is_let_in_with_a_good_token_only(
    secured_daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = KafkaConsumer(**python_client(secured_daemon, Tokens(signed(RSA, claims()))))
    try:
        assert "orders" in consumer.topics()
    finally:
        consumer.close()
    with pytest.raises(KafkaError):
        KafkaConsumer(**python_client(secured_daemon, Tokens(unsecured(claims()))), bootstrap_timeout_ms=1500)
    assert "invalid_token" in caplog.text


@pytest.mark.parametrize("is_good", [True, False])
def test_aiokafka_is_let_in_with_a_good_token_only(secured_daemon: Daemon, is_good: bool) -> None:
    async def topics() -> set[str]:
        provider = AiokafkaTokens(signed(RSA if is_good else OTHER_RSA, claims()))
        consumer = AIOKafkaConsumer(**python_client(secured_daemon, provider))
        try:
            await asyncio.wait_for(consumer.start(), PATIENCE_S)
            found: set[str] = await consumer.topics()
            return found
        finally:
            await consumer.stop()

    if is_good:
        assert "orders" in asyncio.run(topics())
    else:
        # It takes the answer to an invalid token for the end, and asks for metadata in place of the last word.
        with pytest.raises(Exception, match=r"(?i)auth|connection|token|metadata"):
            asyncio.run(topics())


def kafka_topics(directory: Path, daemon: Daemon, *properties: str, option: str = "") -> Any:
    """Runs kafka-topics.sh --list."""
    file = directory / "client.properties"
    lines = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", *properties)
    file.write_text("\n".join(lines))
    try:
        program, *arguments = tools()
    except CannotBuild as reason:
        lacking(str(reason))
    return subprocess.run(
        [
            *(program, *([option] if option else []), *arguments, "org.apache.kafka.tools.TopicCommand"),
            *("--bootstrap-server", f"127.0.0.1:{daemon.port}", "--command-config", str(file), "--list"),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


_MODULE: Final = (
    "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
)


@pytest.mark.timeout(400)
def test_java_makes_its_own_token(unsecured_daemon: Daemon, tmp_path: Path) -> None:
    done = kafka_topics(tmp_path, unsecured_daemon, f'{_MODULE} unsecuredLoginStringClaim_sub="alice";')
    assert "orders" in done.stdout.split(), done.stderr


@pytest.mark.timeout(400)
@pytest.mark.parametrize("is_good", [True, False])
def test_java_shows_a_signed_token(secured_daemon: Daemon, tmp_path: Path, is_good: bool) -> None:
    file = tmp_path / "token"
    file.write_text(signed(RSA if is_good else OTHER_RSA, claims()))
    done = kafka_topics(
        tmp_path,
        secured_daemon,
        f"{_MODULE};",
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
        option=f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}",
    )
    if is_good:
        assert "orders" in done.stdout.split(), done.stderr
    else:
        assert done.returncode != 0
        assert "invalid_token" in done.stdout + done.stderr
