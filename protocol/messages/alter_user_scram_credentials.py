"""AlterUserScramCredentials (51): set or delete SCRAM credentials of users (KIP-554)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class ScramCredentialDeletion:
    """A credential to delete."""

    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    """A credential to set, which the client has derived from the password."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsRequest:
    """All changes of a user take effect together, or none if one has an error."""

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    """The result of all changes of one user."""

    user: String
    error_code: Int16
    error_message: NullableString


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsResponse:
    """The results, one for each user."""

    throttle_time_ms: Int32 = since(default=0)
    results: Array[AlterUserScramCredentialsResult]
