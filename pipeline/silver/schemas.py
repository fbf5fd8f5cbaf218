"""The silver tables, column by column. Times are UTC; NULL stands where Kafka has -1 or nothing."""

from typing import Final

from pipeline.table import Table

COMMITS: Final = Table.declare(
    "commits",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    topic string
    partition int
    offset bigint
    leader_epoch int
    metadata string
    commit_ts timestamp
    expire_ts timestamp
    topic_id string
    tombstone boolean
    value_version int
    producer_id bigint
    ingest_batch bigint
    """,
)

GROUP_GENERATIONS: Final = Table.declare(
    "group_generations",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    generation int
    protocol_type string
    protocol string
    leader string
    state_ts timestamp
    n_members int
    tombstone boolean
    value_version int
    ingest_batch bigint
    """,
)

MEMBERS: Final = Table.declare(
    "members",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    generation int
    member_id string
    group_instance_id string
    client_id string
    client_host string
    rebalance_timeout_ms int
    session_timeout_ms int
    is_leader boolean
    subscribed_topics array<string>
    n_partitions int
    ingest_batch bigint
    """,
)

ASSIGNMENTS: Final = Table.declare(
    "assignments",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    generation int
    member_id string
    topic string
    partition int
    ingest_batch bigint
    """,
)

GROUP_EPOCHS: Final = Table.declare(
    "group_epochs",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    record string
    epoch int
    metadata_hash bigint
    computed_ts timestamp
    topics array<string>
    topic_ids array<string>
    tombstone boolean
    value_version int
    ingest_batch bigint
    """,
)

CONSUMER_MEMBERS: Final = Table.declare(
    "consumer_members",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    member_id string
    group_instance_id string
    rack_id string
    client_id string
    client_host string
    subscribed_topics array<string>
    subscribed_expression string
    assignor string
    rebalance_timeout_ms int
    session_timeout_ms int
    is_classic boolean
    tombstone boolean
    value_version int
    ingest_batch bigint
    """,
)

MEMBER_EPOCHS: Final = Table.declare(
    "member_epochs",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    record string
    member_id string
    epoch int
    previous_epoch int
    state string
    n_partitions int
    n_pending_revocation int
    tombstone boolean
    value_version int
    ingest_batch bigint
    """,
)

MEMBER_PARTITIONS: Final = Table.declare(
    "member_partitions",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    member_id string
    epoch int
    holding string
    topic_id string
    partition int
    since_epoch int
    ingest_batch bigint
    """,
)

GROUP_EXPRESSIONS: Final = Table.declare(
    "group_expressions",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    group string
    expression string
    topics array<string>
    topics_version bigint
    resolved_ts timestamp
    tombstone boolean
    value_version int
    ingest_batch bigint
    """,
)

UNKNOWN_RECORDS: Final = Table.declare(
    "unknown_records",
    """
    log_partition int
    log_offset bigint
    record_ts timestamp
    key_type int
    key binary
    value binary
    ingest_batch bigint
    """,
)

INGEST_FINDINGS: Final = Table.declare(
    "ingest_findings",
    """
    ingest_batch bigint
    found_ts timestamp
    log_partition int
    kind string
    first_offset bigint
    last_offset bigint
    path string
    position bigint
    detail string
    """,
)

INGEST_BATCHES: Final = Table.declare(
    "ingest_batches",
    """
    ingest_batch bigint
    ingested_ts timestamp
    n_records bigint
    """,
)

SILVER: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        COMMITS,
        GROUP_GENERATIONS,
        MEMBERS,
        ASSIGNMENTS,
        GROUP_EPOCHS,
        CONSUMER_MEMBERS,
        MEMBER_EPOCHS,
        MEMBER_PARTITIONS,
        GROUP_EXPRESSIONS,
        UNKNOWN_RECORDS,
        INGEST_FINDINGS,
        INGEST_BATCHES,
    )
}
"""By name; `ingest_batches` is last, as it is published last."""
