"""ACLs: create, find and delete; invalid ones; missing permissions."""

from typing import Any

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant
from tests.oracle.secured import enter, principal
from tests.oracle.session import session

NEWEST = 3
VERSIONS = (1, 2, 3)
UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = 0, 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TXN, TOKEN, USER = 2, 3, 4, 5, 6, 7
ALL, READ, WRITE, DESCRIBE = 2, 3, 4, 8
DENY, ALLOW = 2, 3
CLIENT = "alice"


def creation(play: Play, **fields: Any) -> AclCreation:
    """That a user of this session may read its topic, unless the fields say otherwise."""
    given: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": play.name("orders"),
        "resource_pattern_type": LITERAL,
        "principal": principal(play, CLIENT),
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**given | fields)


_FILTER: dict[str, Any] = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def describe(play: Play, **fields: Any) -> DescribeAclsRequest:
    """Asks for all of a user of this session, unless the fields say otherwise."""
    return DescribeAclsRequest(**{**_FILTER, "principal_filter": principal(play, CLIENT), **fields})


def chosen(play: Play, **fields: Any) -> DeleteAclsFilter:
    """Build the equivalent filter for a deletion."""
    return DeleteAclsFilter(**{**_FILTER, "principal_filter": principal(play, CLIENT), **fields})


def settle(play: Play, count: int) -> None:
    """Waits until the broker knows so many ACLs of the user."""
    play.until(
        lambda: sum(len(each.acls) for each in play.ask(describe(play), NEWEST, "admin").resources) == count
    )


def some(play: Play) -> list[AclCreation]:
    """ACLs of many kinds."""
    return [
        creation(play),
        creation(play, operation=WRITE, permission_type=DENY),
        creation(play, resource_name="*", operation=ALL),
        creation(play, resource_name="ord", resource_pattern_type=PREFIXED),
        creation(play, resource_name=play.name("orders") + "x"),
        creation(play, resource_type=GROUP, host="127.0.0.1"),
        creation(play, resource_type=GROUP, resource_name="g", host="10.0.0.0/8"),
        creation(play, resource_type=TXN, operation=DESCRIBE),
        creation(play, resource_type=CLUSTER, resource_name="kafka-cluster", operation=DESCRIBE),
        creation(play, resource_type=TOKEN, operation=DESCRIBE),
        creation(play, resource_type=USER, resource_name="User:x", operation=14),
    ]


FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "topics": {"resource_type_filter": TOPIC},
    "groups": {"resource_type_filter": GROUP},
    "the cluster": {"resource_type_filter": CLUSTER},
    "users": {"resource_type_filter": USER},
    "literal": {"pattern_type_filter": LITERAL},
    "prefixed": {"pattern_type_filter": PREFIXED},
    "of no name that match": {"pattern_type_filter": MATCH},
    "the star": {"resource_name_filter": "*"},
    "the star that matches": {"resource_name_filter": "*", "pattern_type_filter": MATCH},
    "a prefix": {"resource_name_filter": "ord"},
    "a literal prefix": {"resource_name_filter": "ord", "pattern_type_filter": LITERAL},
    "a prefix, prefixed": {"resource_name_filter": "ord", "pattern_type_filter": PREFIXED},
    "what a prefix matches": {"resource_name_filter": "order", "pattern_type_filter": MATCH},
    "an empty name": {"resource_name_filter": ""},
    "from here": {"host_filter": "127.0.0.1"},
    "from anywhere": {"host_filter": "*"},
    "from a range": {"host_filter": "10.0.0.0/8"},
    "from within the range": {"host_filter": "10.1.2.3"},
    "reading": {"operation": READ},
    "everything": {"operation": ALL},
    "denied": {"permission_type": DENY},
    "allowed topics": {"permission_type": ALLOW, "resource_type_filter": TOPIC},
    "a type that is unknown": {"resource_type_filter": UNKNOWN},
    "a type that there is not": {"resource_type_filter": 99},
    "a pattern that is unknown": {"pattern_type_filter": UNKNOWN},
    "a pattern that there is not": {"pattern_type_filter": 99},
    "an operation that is unknown": {"operation": UNKNOWN},
    "an operation that there is not": {"operation": 99},
    "a permission that is unknown": {"permission_type": UNKNOWN},
    "a permission that there is not": {"permission_type": 99},
}


@session(setup=SECURED, version=VERSIONS)
def acls_are_found(play: Play, version: int) -> None:
    made = some(play)
    play.ask(CreateAclsRequest(creations=made), version, note="made")
    settle(play, len(made))
    for note, fields in FILTERS.items():
        play.ask(describe(play, **fields), version, note=note)
    named = {"resource_name_filter": play.name("orders")}
    play.ask(describe(play, **named), version, note="a name")
    play.ask(describe(play, **named, pattern_type_filter=MATCH), version, note="what matches a name")
    play.ask(describe(play, **named, principal_filter=None), version, note="a name, whoever it is")
    play.ask(describe(play, principal_filter=principal(play, "bob")), version, note="of nobody")
    play.ask(describe(play, principal_filter="alice"), version, note="of no principal")
    play.ask(describe(play, principal_filter=""), version, note="of an empty one")


@session(setup=SECURED, filter=FILTERS)
def acls_are_deleted(play: Play, filter: str) -> None:  # noqa: A002 - it is in the session's name
    made = some(play)
    with play.quietly():
        play.ask(CreateAclsRequest(creations=made), NEWEST)
    settle(play, len(made))
    answer = play.ask(DeleteAclsRequest(filters=[chosen(play, **FILTERS[filter])]), NEWEST)
    if answer is not None:
        settle(play, len(made) - sum(len(each.matching_acls) for each in answer.filter_results))
    play.ask(describe(play), NEWEST, note="what is left")


@session(setup=SECURED, version=VERSIONS)
def several_filters_delete(play: Play, version: int) -> None:
    made = some(play)
    play.ask(CreateAclsRequest(creations=made), version, note="made")
    settle(play, len(made))
    filters = [
        chosen(play, resource_type_filter=GROUP),
        chosen(play, principal_filter=principal(play, "bob")),
        chosen(play, operation=READ),
        chosen(play, resource_name_filter="*"),
        chosen(play, resource_name_filter="*"),
    ]
    play.ask(DeleteAclsRequest(filters=filters), version, note="that overlap")
    settle(play, 5)
    play.ask(describe(play), version, note="what is left")
    play.ask(DeleteAclsRequest(filters=[]), version, note="none")
    play.ask(DeleteAclsRequest(filters=[chosen(play)]), version, note="all")
    settle(play, 0)
    play.ask(DeleteAclsRequest(filters=[chosen(play)]), version, note="all again")


@session(setup=SECURED, version=VERSIONS)
def an_acl_that_is_there_already(play: Play, version: int) -> None:
    for note in ("made", "made again"):
        play.ask(CreateAclsRequest(creations=[creation(play), creation(play)]), version, note=note)
        settle(play, 1)
    play.ask(CreateAclsRequest(creations=[]), version, note="none")
    play.ask(describe(play), version)


BAD: dict[str, dict[str, Any]] = {
    "another cluster": {"resource_type": CLUSTER, "resource_name": "another"},
    "a cluster by prefix": {
        "resource_type": CLUSTER,
        "resource_name": "kafka",
        "resource_pattern_type": PREFIXED,
    },
    "all clusters": {"resource_type": CLUSTER, "resource_name": "*"},
    "an empty name": {"resource_name": ""},
    "an empty group": {"resource_type": GROUP, "resource_name": ""},
    "a type that is unknown": {"resource_type": UNKNOWN},
    "any type": {"resource_type": ANY},
    "a type that there is not": {"resource_type": 99},
    "a pattern that is unknown": {"resource_pattern_type": UNKNOWN},
    "any pattern": {"resource_pattern_type": ANY},
    "a matching pattern": {"resource_pattern_type": MATCH},
    "a pattern that there is not": {"resource_pattern_type": 99},
    "an operation that is unknown": {"operation": UNKNOWN},
    "any operation": {"operation": ANY},
    "an operation that there is not": {"operation": 99},
    "a permission that is unknown": {"permission_type": UNKNOWN},
    "any permission": {"permission_type": ANY},
    "a permission that there is not": {"permission_type": 99},
    "an operation of another type": {"resource_type": GROUP, "operation": WRITE},
    "clusters cannot be read": {"resource_type": CLUSTER, "resource_name": "kafka-cluster"},
    "a principal without a type": {"principal": "alice"},
    "an empty principal": {"principal": ""},
    "a principal without a name": {"principal": "User:"},
    "a principal of no type": {"principal": ":alice"},
    "a principal that is a group": {"principal": "Group:alice"},
    "an empty host": {"host": ""},
    "a host by name": {"host": "localhost"},
    "a host that is none": {"host": "300.1.2.3"},
    "a range that is none": {"host": "10.0.0.0/33"},
    "a range with bits": {"host": "10.1.2.3/8"},
    "a range of IPv6": {"host": "fe80::/10"},
    "an illegal topic": {"resource_name": "a b/c"},
    "a long topic": {"resource_name": "a" * 300},
}


@session(setup=SECURED, binding=BAD)
def an_acl_that_is_unusual(play: Play, binding: str) -> None:
    fields = BAD[binding]
    if "principal" in fields:
        fields = {**fields, "resource_name": play.name("orders")}
    bad = creation(play, **fields)
    for version in VERSIONS:
        play.ask(CreateAclsRequest(creations=[bad]), version)
    play.ask(
        CreateAclsRequest(creations=[creation(play, operation=DESCRIBE), bad]),
        NEWEST,
        note="after a good one",
    )
    with play.quietly():
        last = play.ask(CreateAclsRequest(creations=[creation(play, operation=WRITE)]), NEWEST)
    assert last.results[0].error_code == 0
    held = describe(
        play, operation=WRITE, resource_type_filter=TOPIC, resource_name_filter=play.name("orders")
    )
    play.until(lambda: bool(play.ask(held, NEWEST, "admin").resources))
    play.ask(describe(play), NEWEST, note="what is there")
    if "principal" in fields:
        named = describe(play, principal_filter=None, resource_name_filter=play.name("orders"))
        play.ask(named, NEWEST, note="whoever it is")


@session(setup=SECURED, version=VERSIONS)
def acls_of_who_may_not(play: Play, version: int) -> None:
    enter(play, CLIENT)
    steps: dict[str, tuple[str, ...]] = {
        "nothing": (),
        "all topics": ("ALL TOPIC *",),
        "seeing": ("DESCRIBE CLUSTER",),
        "altering": ("ALTER CLUSTER",),
        "not seeing": ("DENY DESCRIBE CLUSTER",),
    }
    nobodys = principal(play, "nobody")
    for note, rights in steps.items():
        grant(play, CLIENT, *rights)
        mine, bad = creation(play, principal=nobodys), creation(play, principal=nobodys, operation=ANY)
        play.ask(CreateAclsRequest(creations=[mine, bad]), version, CLIENT, note)
        play.ask(describe(play, principal_filter=principal(play, "bob")), version, CLIENT, note)
        play.ask(describe(play, operation=UNKNOWN), version, CLIENT, f"{note}, a bad filter")
        filters = [chosen(play, principal_filter=principal(play, "bob")), chosen(play, operation=UNKNOWN)]
        play.ask(DeleteAclsRequest(filters=filters[:1]), version, CLIENT, note)
        play.ask(DeleteAclsRequest(filters=filters), version, CLIENT, f"{note}, a bad filter")


@session(version=VERSIONS)
def acls_without_an_authorizer(play: Play, version: int) -> None:
    play.ask(CreateAclsRequest(creations=[creation(play), creation(play, operation=ANY)]), version)
    play.ask(describe(play), version)
    play.ask(DeleteAclsRequest(filters=[chosen(play), chosen(play)]), version)
