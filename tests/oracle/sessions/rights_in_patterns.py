"""How rights are written: prefixes, all, everybody, hosts, denials; and rights that change between two requests."""

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.oracle.consumer import Consumer, settle
from tests.oracle.member import Member
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant, revoke
from tests.oracle.secured import enter
from tests.oracle.session import session

CLIENT, EVERYBODY, STRANGER = "alice", "*", "mallory"
TOPICS = ("orders", "orders.old", "ord", "payments")
RIGHTS: dict[str, tuple[str, ...]] = {
    "one by name": ("READ TOPIC orders",),
    "a beginning": ("READ TOPIC orders...",),
    "a shorter beginning": ("READ TOPIC o...",),
    "a beginning that is another's name": ("READ TOPIC ord...",),
    "all": ("READ TOPIC *",),
    "all, as a name": ("DESCRIBE TOPIC *",),
    "everything": ("ALL TOPIC *",),
    "writing": ("WRITE TOPIC orders",),
    "deleting": ("DELETE TOPIC orders",),
    "altering": ("ALTER TOPIC orders",),
    "creating": ("CREATE TOPIC orders",),
    "describing configs": ("DESCRIBE_CONFIGS TOPIC orders",),
    "altering configs": ("ALTER_CONFIGS TOPIC orders",),
    "groups": ("ALL GROUP *",),
    "the cluster": ("ALL CLUSTER",),
    "from here": ("READ TOPIC orders from 127.0.0.1",),
    "from elsewhere": ("READ TOPIC orders from 10.1.2.3",),
    "from everywhere near": ("READ TOPIC orders from 127.0.0.0/8",),
    "from everywhere else": ("READ TOPIC orders from 10.0.0.0/8",),
    "all but one": ("READ TOPIC *", "DENY READ TOPIC orders"),
    "all but seeing one": ("READ TOPIC *", "DENY DESCRIBE TOPIC orders"),
    "all but everything of one": ("ALL TOPIC *", "DENY ALL TOPIC orders"),
    "all but a beginning": ("READ TOPIC *", "DENY DESCRIBE TOPIC ord..."),
    "one that all are denied": ("READ TOPIC orders", "DENY DESCRIBE TOPIC *"),
    "denied from here": ("DESCRIBE TOPIC *", "DENY DESCRIBE TOPIC orders from 127.0.0.1"),
    "denied from elsewhere": ("DESCRIBE TOPIC *", "DENY DESCRIBE TOPIC orders from 10.1.2.3"),
}


@session(setup=SECURED, rights=RIGHTS)
def topics_that_rights_are_about(play: Play, rights: str) -> None:
    enter(play, CLIENT)
    for short in TOPICS:
        play.topic(short, 1)
    grant(play, CLIENT, *RIGHTS[rights])
    topics = [MetadataRequestTopic(name=play.name(short)) for short in (*TOPICS, "nothing")]
    play.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12, CLIENT, "by name")
    play.ask(MetadataRequest(topics=None), 12, CLIENT, "all", own=True)


@session(setup=SECURED)
def rights_of_everybody(play: Play) -> None:
    enter(play, CLIENT, STRANGER)
    grant(play, EVERYBODY, "DESCRIBE GROUP theirs", "DESCRIBE GROUP hers")
    grant(play, STRANGER, "DENY DESCRIBE GROUP hers")
    groups = [play.name("theirs"), play.name("hers"), play.name("nobody's")]
    for by in (CLIENT, STRANGER, "a"):
        play.ask(DescribeGroupsRequest(groups=groups), 5, by)


@session(setup=SECURED, version=(0, 4))
def a_member_that_loses_its_group(play: Play, version: int) -> None:
    """Its heartbeats come again just so, and are answered as before only while they are allowed."""
    enter(play, CLIENT)
    grant(play, CLIENT, "READ GROUP g")
    member = Member(play, CLIENT, versions={"heartbeat": version})
    member.enter()
    member.sync()
    for _ in range(3):
        member.heartbeat("allowed")
    revoke(play, CLIENT)
    member.heartbeat("taken away")
    member.sync(note="taken away")
    member.join("taken away")
    member.commit({("orders", 0): 1})
    grant(play, CLIENT, "READ GROUP *")
    for _ in range(3):
        member.heartbeat("allowed again")
    grant(play, CLIENT, "DENY READ GROUP g")
    member.heartbeat("denied")
    member.leave("denied")
    play.describe()


@session(setup=SECURED, version=(0, 1))
def a_consumer_that_loses_its_group(play: Play, version: int) -> None:
    enter(play, CLIENT)
    orders, other = play.topic("orders", 1), play.topic("other", 1)
    grant(play, CLIENT, "READ GROUP g", "DESCRIBE TOPIC orders")
    member = Consumer(play, CLIENT, [orders], version=version, member_id="m")
    member.join("allowed")
    for _ in range(3):
        member.heartbeat("allowed")
    member.subscribe(orders, other, note="to one that is hidden")
    member.heartbeat("as before")
    revoke(play, CLIENT, "DESCRIBE TOPIC orders")
    member.heartbeat("that names no topic")
    member.full("that names its topic")
    revoke(play, CLIENT)
    member.heartbeat("taken away")
    member.leave("taken away")
    grant(play, CLIENT, "READ GROUP g")
    member.leave("allowed again")


@session(setup=SECURED)
def a_group_of_topics_that_are_hidden(play: Play) -> None:
    """A client without permission on a topic does not get the group's description."""
    enter(play, CLIENT)
    orders = play.topic("orders", 1)
    grant(play, CLIENT, "ALL GROUP g")
    admin = Consumer(play, "a", [orders], member_id="m")
    admin.join()
    admin.confirm()
    asked = ConsumerGroupDescribeRequest(group_ids=[play.group], include_authorized_operations=True)
    for note, rights in (("nothing", ()), ("its topic", ("DESCRIBE TOPIC orders",))):
        grant(play, CLIENT, *rights)
        play.ask(asked, 1, CLIENT, note)
    admin.subscribe(orders, play.topic("other", 1))
    admin.confirm()
    settle(admin)
    play.ask(asked, 1, CLIENT, "another topic as well")
    grant(play, CLIENT, "DESCRIBE TOPIC other")
    play.ask(asked, 1, CLIENT, "which may be seen")


@session(setup=SECURED, version=(0, 4))
def who_may_do_nothing_finds_nobody(play: Play, version: int) -> None:
    enter(play, STRANGER)
    for kind in (0, 1):
        names = {"coordinator_keys": [play.group, ""]} if version >= 4 else {"key": play.group}
        play.ask(FindCoordinatorRequest(key_type=kind, **names), max(version, 1), STRANGER, f"kind {kind}")
