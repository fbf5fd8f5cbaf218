"""Read the ACLs and SCRAM credentials of an adopted Kafka data directory;
`coordinator/topics/kafka_metadata_log.py` describes the log.

Source: Kafka's `AclsImage` and `ScramImage`.
"""

from typing import Final

from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    why_inconsistent,
)
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism
from coordinator.security.core.security_state import ScramUser, SecurityState
from coordinator.topics.kafka_metadata_log import replay_metadata_log
from protocol.records.cluster_metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from storage.files import Files

_MECHANISMS: Final = frozenset(ScramMechanism)


def read_cluster_security(files: Files, data_directory: str) -> SecurityState:
    """Return the cluster's ACLs and credentials; empty without a metadata log.

    Raises:
        DamagedFile: the log is malformed.
        OSError: a file cannot be read.
    """
    found = _SecurityImage()
    replay_metadata_log(files, data_directory, found)
    return found.state()


class _SecurityImage:
    """The security state after replaying records."""

    def __init__(self) -> None:
        self._acls: dict[bytes, AclBinding] = {}
        self._scram: dict[ScramUser, ScramCredential] = {}
        self._before_transaction: tuple[dict[bytes, AclBinding], dict[ScramUser, ScramCredential]] | None = (
            None
        )

    def state(self) -> SecurityState:
        """Return the state without invalid ACLs (early releases allowed an empty principal)."""
        acls = (acl for acl in self._acls.values() if why_inconsistent(acl) is None)
        return SecurityState(frozenset(acls), dict(self._scram))

    def replay(self, record: MetadataRecord) -> None:
        """Apply a record of the log."""
        match record:
            case AccessControlEntryRecord():
                self._acls[record.id] = AclBinding(
                    ResourceType(record.resource_type),
                    record.resource_name,
                    PatternType(record.pattern_type),
                    record.principal,
                    record.host,
                    AclOperation(record.operation),
                    AclPermissionType(record.permission_type),
                )
            case RemoveAccessControlEntryRecord():
                self._acls.pop(record.id, None)
            case UserScramCredentialRecord() if record.mechanism in _MECHANISMS:
                self._scram[record.name, ScramMechanism(record.mechanism)] = ScramCredential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord() if record.mechanism in _MECHANISMS:
                self._scram.pop((record.name, ScramMechanism(record.mechanism)), None)
            case BeginTransactionRecord():
                self._before_transaction = dict(self._acls), dict(self._scram)
            case EndTransactionRecord():
                self._before_transaction = None
            case AbortTransactionRecord():
                self.abort()

    def abort(self) -> None:
        """Roll back an open transaction, if any."""
        if self._before_transaction is not None:
            self._acls, self._scram = self._before_transaction
            self._before_transaction = None
