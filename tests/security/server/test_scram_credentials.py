"""AlterUserScramCredentials and DescribeUserScramCredentials: Kafka's order of errors, and later logins."""

from pathlib import Path

from coordinator.security.core.sasl_mechanisms import ScramMechanism, salted_password
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.harness import Client, serving
from tests.security.server.sasl_server import log_in, serving_sasl

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789abcdef"


def set_(
    name: str, password: str = "secret", mechanism: int = SHA_256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    known = ScramMechanism(mechanism) if mechanism in (1, 2) else SHA_256
    salted = salted_password(known, password, SALT, max(1, min(iterations, 20_000)))
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(
    client: Client, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    """Error and text by user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    answer = await client.call(request, 0)
    assert len({result.user for result in answer.results}) == len(answer.results)
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


async def described(client: Client, *users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    """Error, and mechanisms with their iterations, by user; of all, where none is named."""
    names = [UserName(name=user) for user in users] if users else None
    answer = await client.call(DescribeUserScramCredentialsRequest(users=names), 0)
    assert answer.error_code == ErrorCode.NONE
    return {
        result.user: (
            result.error_code,
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in answer.results
    }


async def test_each_user_has_the_first_error_that_kafka_finds(tmp_path: Path) -> None:
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    unknown = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    nameless = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    missing = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    async with serving(tmp_path) as server, Client(server) as client:
        assert await alter(client, set_("a"), set_("b")) == {"a": (0, None), "b": (0, None)}
        assert await alter(
            client,
            *(delete("a"), delete("a"), delete("b"), set_("b"), set_("c"), set_("c", mechanism=SHA_512)),
            *(delete("gone"), set_("gone"), delete("twice gone"), delete("twice gone")),
            *(set_("", iterations=1), set_("d", mechanism=3, iterations=1), delete("e", 0)),
            *(set_("few", iterations=4095), set_("many", iterations=16_385), set_("most", iterations=16_384)),
        ) == {
            "a": twice,
            "b": twice,
            "c": twice,
            "gone": missing,
            "twice gone": missing,
            "": nameless,
            "d": unknown,
            "e": unknown,
            "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
            "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
            "most": (0, None),
        }
        assert await described(client) == {
            "a": (0, [(1, 4096)]),
            "b": (0, [(1, 4096)]),
            "most": (0, [(1, 16_384)]),
        }


async def test_users_are_described_by_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        await alter(client, set_("a"))
        await alter(client, set_("a", mechanism=SHA_512, iterations=5000))
        found = await described(client, "a", "nobody", "b", "b")
        assert found["a"] == (0, [(1, 4096), (2, 5000)])
        assert found["nobody"] == (ErrorCode.RESOURCE_NOT_FOUND, [])
        assert found["b"] == (ErrorCode.DUPLICATE_RESOURCE, [])
        assert await alter(client, delete("a", SHA_512)) == {"a": (0, None)}
        assert await described(client) == {"a": (0, [(1, 4096)])}


async def test_a_credential_lets_in_at_once_until_it_is_gone(tmp_path: Path) -> None:
    async with serving_sasl(tmp_path) as server, Client(port=server.endpoints[1].port) as admin:
        await alter(admin, set_("carol", "carol-secret", SHA_512))
        async with Client(server) as client:
            answer = await log_in(client, "carol", "carol-secret", "SCRAM-SHA-512")
            assert answer.error_code == ErrorCode.NONE
        await alter(admin, delete("carol", SHA_512))
        async with Client(server) as client:
            answer = await log_in(client, "carol", "carol-secret", "SCRAM-SHA-512")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_what_was_set_is_there_after_a_restart_and_no_password_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        await alter(client, set_("carol", "carol-secret"))
    kept = (tmp_path / "security.json").read_bytes()
    assert b"carol-secret" not in kept
    assert (tmp_path / "security.json").stat().st_mode & 0o077 == 0
    async with serving(tmp_path) as server, Client(server) as client:
        assert await described(client) == {"carol": (0, [(1, 4096)])}
