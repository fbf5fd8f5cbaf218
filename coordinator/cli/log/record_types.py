"""What records are called: those of `__consumer_offsets` by the type that a key begins with, and control records.

Source: Kafka's `ControlRecordType`.
"""

from typing import Final

from protocol.records import record_types

OFFSET_COMMIT: Final = record_types.OFFSET_COMMIT.name
GROUP_METADATA: Final = record_types.GROUP_METADATA.name
UNKNOWN: Final = "unknown"
CONTROL: Final = "control"
TRANSACTION: Final = "transaction"
"""Of `__transaction_state`."""
RECORD: Final = "record"
"""Of any other topic."""

NAMES: Final = {number: kind.name for number, kind in record_types.BY_NUMBER.items()}

CONTROL_NAMES: Final = {
    0: "abort",
    1: "commit",
    2: "leader_change",
    3: "snapshot_header",
    4: "snapshot_footer",
    5: "kraft_version",
    6: "kraft_voters",
}

ALL: Final = tuple(dict.fromkeys([*NAMES.values(), UNKNOWN, CONTROL, TRANSACTION, RECORD]))
