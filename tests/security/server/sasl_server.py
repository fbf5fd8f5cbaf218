"""A server in this process with a SASL listener, and clients that send the frames of the authentication one by
one."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from scramp import ScramClient

from coordinator.broker.server import Server
from coordinator.config.listener_security import create_listener_settings
from coordinator.http.metric_collectors import ServerMetricsCollector
from coordinator.security.core.sasl_mechanisms import (
    MIN_ITERATIONS,
    ScramMechanism,
    create_credential,
    salted_password,
)
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import Client, read_metrics, settings, start

PASSWORD: Final = "alice-secret"
_SALT: Final = bytes(range(16))
_JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_alice="{PASSWORD}" user_bob="bob-secret";'
)
JAAS_PLAIN: Final = f"listener.name.sasl_plaintext.plain.sasl.jaas.config={_JAAS}"
"""As a line of a properties file."""
PROPERTIES: Final = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    **dict([JAAS_PLAIN.split("=", 1)]),
    "connection.failed.authentication.delay.ms": "20",
}


@asynccontextmanager
async def serving_sasl(data_dir: Path, properties: Mapping[str, str] | None = None) -> AsyncIterator[Server]:
    """A server where alice and bob have a password by PLAIN, and alice the same by SCRAM."""
    how = settings(data_dir, {**PROPERTIES, **(properties or {})}, topics=[("orders", 3)])
    how.security = {
        listener.name: create_listener_settings(how.config, how.properties, listener, None)
        for listener in how.listeners
        if listener.protocol != "PLAINTEXT"
    }
    server = await start(how)
    store = server.security.store
    scram = {("alice", mechanism): credential(mechanism, PASSWORD) for mechanism in ScramMechanism}
    await store.change_state(replace(store.state, scram=scram))
    try:
        yield server
    finally:
        await server.close()


def credential(mechanism: ScramMechanism, password: str) -> Any:
    salted = salted_password(mechanism, password, _SALT, MIN_ITERATIONS)
    return create_credential(mechanism, salted, _SALT, MIN_ITERATIONS)


def plain_token(user: str = "alice", password: str = PASSWORD) -> bytes:
    return f"\0{user}\0{password}".encode()


async def choose(client: Client, mechanism: str, version: int = 1) -> Any:
    """Sends SaslHandshake; its answer."""
    return await client.call(SaslHandshakeRequest(mechanism=mechanism), version)


async def show(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    """Sends a token; its answer."""
    answer: SaslAuthenticateResponse
    answer = await client.call(SaslAuthenticateRequest(auth_bytes=token), version)
    return answer


async def log_in(
    client: Client, user: str = "alice", password: str = PASSWORD, mechanism: str = "PLAIN", version: int = 2
) -> SaslAuthenticateResponse:
    """Authenticate as far as the server allows and return the last response."""
    assert (await choose(client, mechanism)).error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        return await show(client, plain_token(user, password), version)
    scram = ScramClient([mechanism], user, password)
    answer = await show(client, scram.get_client_first().encode(), version)
    if answer.error_code != ErrorCode.NONE:
        return answer
    scram.set_server_first(answer.auth_bytes.decode())
    answer = await show(client, scram.get_client_final().encode(), version)
    if answer.error_code == ErrorCode.NONE:
        scram.set_server_final(answer.auth_bytes.decode())
    return answer


def metric(server: Server, name: str, **labels: str) -> float:
    """Return a value of /metrics, 0 if it is absent."""
    return sum(
        sample.value
        for family in ServerMetricsCollector(read_metrics(server)).collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
