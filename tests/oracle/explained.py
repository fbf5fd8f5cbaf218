"""The differences that are known. Each belongs to a row of docs/differences.md, and a session shows it."""

from typing import Final

from tests.oracle.compare import ABSENT, Difference, Explained

EXPLAINED: Final = (
    Explained(
        "A refused Produce says why",
        session="*",
        label="*Produce v*",
        path="*.error_message",
        kafka=(None,),
        groupd=("(a text)",),
    ),
    Explained(
        "DescribeConfigs v0 says which values are defaults",
        session="configs_are_described[v0]",
        label="*",
        path="*.is_default",
        kafka=(False,),
        groupd=(True,),
    ),
    Explained(
        "AlterConfigs that names a resource twice",
        session="configs_that_cannot_be_replaced*",
        label="* AlterConfigs v*(a topic twice)",
        path="*",
    ),
    Explained(
        "OffsetCommit and OffsetFetch v0 reach",
        session="commits_of_the_oldest_clients[v0]",
        label="*",
        path="*",
    ),
    Explained(
        "OffsetCommit and OffsetFetch v0 reach",
        session="fetches_of_the_oldest_clients",
        label="* OffsetFetch v0",
        path="topics*",
    ),
    Explained(
        "The offsets topic keeps its partitions",
        session="the_offsets_topic_is_internal",
        label="*CreatePartitions*",
        path="results(0).error_*",
        groupd=("POLICY_VIOLATION", "(a text)"),
    ),
    Explained(
        "A JoinGroup or SyncGroup that is replaced by a second one",
        session="a_second_*_of_a_waiting_member",
        label="b still",
        path="",
        kafka=("waits",),
        groupd=("has its answer",),
    ),
    Explained(
        "The refusal of a coordinator for share groups says why",
        session="find_many_coordinators*",
        label="*(key type 2)",
        path="coordinators(?).error_message",
        kafka=("",),
        groupd=("(a text)",),
    ),
    Explained(
        "A length below that of null",
        session="lengths_below_null*",
        label="*",
        path="",
        groupd=("closed",),
    ),
    Explained(
        "Tags that repeat or go down",
        session="tags_that_come_again",
        label="*",
        path="",
        groupd=("closed",),
    ),
    Explained(
        "A regular expression of a subscription has 16,384 characters",
        session="expressions_that_are_none",
        label="* ConsumerGroupHeartbeat v1 ((((a{100}){100}){100}))",
        path="*",
    ),
    Explained(
        "A regular expression of a subscription has 16,384 characters",
        session="expressions_that_are_none",
        label="why",
        path="",
        kafka=(None,),
    ),
    Explained(
        "A regular expression of a subscription has 16,384 characters",
        session="expressions_that_are_none",
        label="*(nobody is there)",
        path="groups(0).members(*",
    ),
    Explained(
        "What a regular expression matched is written with version 0",
        session="records_of_an_expression",
        label="written: *",
        path="value.version",
        groupd=(0,),
    ),
    Explained(
        "Cluster authorization failures of requests about ACLs",
        session="*",
        label="*",
        path="*error_message",
        kafka=tuple(f"Request (in print) needs {right} permission." for right in ("ALTER", "DESCRIBE")),
        groupd=("Cluster authorization failed.",),
    ),
    Explained(
        "Of several brokers that live the first is named as the controller",
        session="the_cluster_is_described_by_every_broker",
        label="*",
        path="controller_id",
    ),
    Explained(
        "A request instead of a SASL token",
        session="any_other_request_instead_of_a_token*",
        label="*",
        path="*()",
        groupd=(0,),
    ),
    Explained(
        "A request instead of a SASL token",
        session="any_other_request_instead_of_a_token*",
        label="*",
        path="*",
        groupd=(ABSENT,),
    ),
    Explained(
        "A proof of SCRAM that is too short",
        session="final_messages_of_scram*",
        label="*proof",
        path="*",
        kafka=("closed", ABSENT),
    ),
    Explained(
        "A proof of SCRAM that is too short",
        session="final_messages_of_scram*",
        label=ABSENT,
        path="",
        groupd=("at last",),
    ),
)


def explanation(difference: Difference) -> Explained | None:
    """The first entry that covers the difference."""
    return next((known for known in EXPLAINED if known.covers(difference)), None)
