"""DescribeUserScramCredentials (50): the users with SCRAM credentials, and their iterations (KIP-554)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class UserName:
    """A user with SCRAM credentials."""

    name: String


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsRequest:
    """No users, or null, requests all users."""

    users: NullableArray[UserName]


@struct
class CredentialInfo:
    """A credential without its secrets. Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    """A user with SCRAM credentials."""

    user: String
    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    credential_infos: Array[CredentialInfo]


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsResponse:
    """The results, one for each user."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    results: Array[DescribeUserScramCredentialsResult]
