"""Frames and headers: responses, closed connections, and ApiVersions."""

import struct
from typing import Any

from protocol.messages.api_versions import ApiVersionsRequest
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.wire import Closed, NoAnswer

HEARTBEAT, DESCRIBE_GROUPS, API_VERSIONS = 12, 15, 18
NO_TAGS = b"\0"
SILENCE_S = 1.5
"""A broker that is silent for this time waits for more data."""


def header(key: int, version: int, client_id: bytes | None = b"raw", tags: bytes = b"") -> bytes:
    """The header of a request; flexible versions have a tagged section after it."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", key, version, 7) + name + tags


def framed(content: bytes) -> bytes:
    """With its size."""
    return struct.pack(">i", len(content)) + content


def shoot(play: Play, note: str, data: bytes, shown: int | None = None) -> None:
    """Send bytes on a new connection and record the result: a frame, the end, or nothing.

    `shown` limits the recorded bytes of the response.
    """
    wire = play.raw_wire()
    try:
        wire.send_bytes(data)
        answer = wire.take_frame(SILENCE_S)
        play.tell(note, answer[:shown].hex())
    except Closed:
        play.tell(note, "closed")
    except NoAnswer:
        play.tell(note, "nothing")
    finally:
        wire.close()


def string(text: bytes) -> bytes:
    """A string of a flexible version."""
    return bytes([len(text) + 1]) + text


def heartbeat(group: bytes = b"g") -> bytes:
    """The body of a heartbeat, v0."""
    return struct.pack(">h", len(group)) + group + struct.pack(">i", 1) + struct.pack(">h", 1) + b"m"


FLEXIBLE = string(b"g") + struct.pack(">i", 1) + string(b"m") + NO_TAGS
"""The fields of a heartbeat, v4."""


@session()
def heartbeats_by_hand(play: Play) -> None:
    body = heartbeat()
    for note, content in (
        ("as it should be", header(HEARTBEAT, 0) + body),
        ("no client id", header(HEARTBEAT, 0, None) + body),
        ("an empty client id", header(HEARTBEAT, 0, b"") + body),
        ("more bytes than it needs", header(HEARTBEAT, 0) + body + b"abc"),
        ("a byte too few", header(HEARTBEAT, 0) + body[:-1]),
        ("no body", header(HEARTBEAT, 0)),
        ("no group", header(HEARTBEAT, 0) + struct.pack(">h", -1) + body[3:]),
        ("a group of a negative length", header(HEARTBEAT, 0) + struct.pack(">h", -2) + body[3:]),
        ("a group that is too long", header(HEARTBEAT, 0) + struct.pack(">h", 30_000) + body[3:]),
        ("a client id that is too long", struct.pack(">hhih", HEARTBEAT, 0, 7, 900) + body),
    ):
        shoot(play, note, framed(content))


@session()
def flexible_heartbeats_by_hand(play: Play) -> None:
    start = header(HEARTBEAT, 4, tags=NO_TAGS)
    for note, content in (
        ("as it should be", start + FLEXIBLE + NO_TAGS),
        ("no tagged section", start + FLEXIBLE),
        ("an unknown tag", start + FLEXIBLE + b"\1\x07\x02ab"),
        ("a tag that is too long", start + FLEXIBLE + b"\1\x07\x09ab"),
        ("a tag in the header", header(HEARTBEAT, 4, tags=b"\1\x05\x01z") + FLEXIBLE + NO_TAGS),
        ("a length in more bytes than needed", start + b"\x82\x80\x00g" + FLEXIBLE[2:] + NO_TAGS),
        ("a length of too many bytes", start + b"\xff\xff\xff\xff\xff\xff\x01g" + FLEXIBLE[2:] + NO_TAGS),
        ("a huge length", start + b"\xff\xff\xff\xff\x07" + FLEXIBLE[2:] + NO_TAGS),
        ("no group", start + b"\0" + FLEXIBLE[2:] + NO_TAGS),
        ("a huge number of tags", start + FLEXIBLE + b"\xff\xff\xff\xff\x07"),
    ):
        shoot(play, note, framed(content))


@session()
def arrays_by_hand(play: Play) -> None:
    for note, count in (("huge", 2**31 - 1), ("none", 0), ("null", -1), ("negative", -2)):
        shoot(play, note, framed(header(DESCRIBE_GROUPS, 0) + struct.pack(">i", count)))
    body = struct.pack(">i", 1) + struct.pack(">h", 1) + b"g"
    shoot(play, "a truth of 2", framed(header(DESCRIBE_GROUPS, 3) + body + b"\2"))
    flexible = header(DESCRIBE_GROUPS, 5, tags=NO_TAGS)
    shoot(play, "huge, flexible", framed(flexible + b"\xff\xff\xff\xff\x07\0\0"))
    join = (
        header(11, 0)
        + struct.pack(">h", 1)
        + b"g"
        + struct.pack(">ih", 10_000, 0)
        + struct.pack(">h", 1)
        + b"c"
    )
    shoot(play, "a JoinGroup without protocols", framed(join + struct.pack(">i", -1)))
    protocol = struct.pack(">i", 1) + struct.pack(">h", 1) + b"r" + struct.pack(">i", -1)
    shoot(play, "a JoinGroup without metadata", framed(join + protocol))
    shoot(play, "a Metadata v0 of no list", framed(header(3, 0) + struct.pack(">i", -1)))
    offsets = header(9, 1) + struct.pack(">h", 1) + b"g" + struct.pack(">i", -1)
    shoot(play, "an OffsetFetch v1 of no list", framed(offsets))


@session()
def sizes_by_hand(play: Play) -> None:
    for note, data in (
        ("negative", struct.pack(">i", -1) + b"abcdef"),
        ("three", framed(b"abc")),
        ("seven", framed(struct.pack(">hhh", HEARTBEAT, 0, 0) + b"\0")),
        ("eight", framed(struct.pack(">hhi", HEARTBEAT, 0, 1))),
        ("huge", struct.pack(">i", 2**31 - 1) + b"abcdef"),
        ("a byte over the limit", struct.pack(">i", 104_857_601) + b"abcdef"),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n"),
        ("an encrypted one", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ):
        shoot(play, note, data)


@session()
def apis_and_versions_that_are_not_there(play: Play) -> None:
    for key in (4, 5, 6, 7, 58, 59, 200, -1, 32_767):
        shoot(play, f"api {key}", framed(header(key, 0) + bytes(8)))
    for key in (0, 1, 2, 3, *range(8, 17), *range(19, 24), 32, 37, 42, 44, 47, 60, 75):
        for version in (-1, 20, 32_767):
            shoot(play, f"api {key} v{version}", framed(header(key, version) + bytes(8)))


@session(version=(6, 7, 99, 32_767, -1, -32_768))
def a_version_of_api_versions_that_is_not_there(play: Play, version: int) -> None:
    shoot(play, "with a body", framed(header(API_VERSIONS, version) + bytes(3)))
    shoot(
        play,
        "with a client",
        framed(header(API_VERSIONS, version, tags=NO_TAGS) + string(b"a") + string(b"1") + b"\0"),
    )


def api_versions(play: Play, version: int, note: str, **fields: Any) -> Any:
    """Send ApiVersions and record only the error, since the versions of two brokers differ."""
    play.require(API_VERSIONS, version)
    wire = play.wire()
    request = ApiVersionsRequest(**{"client_software_name": "a", "client_software_version": "1", **fields})
    wire.send(request, version)
    answer = wire.take()
    play.tell(f"a ApiVersions v{version}" + (f" ({note})" if note else ""), answer.error_code)
    return answer


@session(version=(3, 4, 5))
def names_of_client_software(play: Play, version: int) -> None:
    for name, software_version in (
        ("a", "1"), ("", ""), ("a b", "1"), ("-a", "1"), ("a-", "1"), ("a", "1 "), ("a.b-c", "1.0"), ("ü", "1"),
        ("a_b", "1"), ("a" * 100, "1"), (".", "1"),
    ):  # fmt: skip
        note = f"'{name[:12]}' '{software_version}'"
        api_versions(play, version, note, client_software_name=name, client_software_version=software_version)


@session(version=range(6))
def what_is_served(play: Play, version: int) -> None:
    """Of the APIs that all brokers serve alike; the others are in docs/differences.md."""
    answer = api_versions(play, version, "")
    kept = (HEARTBEAT, DESCRIBE_GROUPS, API_VERSIONS, 10, 11, 13, 14, 16, 42, 47)
    versions = {
        api.api_key: [api.min_version, api.max_version] for api in answer.api_keys if api.api_key in kept
    }
    play.tell("versions", {str(key): list(versions[key]) for key in kept})


@session()
def the_cluster_that_a_client_means(play: Play) -> None:
    for note, cluster_id, node_id in (
        ("none", None, -1),
        ("another", "another", 1),
        ("only a cluster", "another", -1),
        ("only a node", None, 1),
    ):
        api_versions(play, 5, note, cluster_id=cluster_id, node_id=node_id)


@session()
def answers_come_in_order(play: Play) -> None:
    wire = play.raw_wire()
    for number in range(20):
        body = struct.pack(">hhi", HEARTBEAT, 0, number) + struct.pack(">h", 1) + b"c" + heartbeat()
        wire.send_bytes(framed(body))
    play.tell("twenty at once", [wire.take_frame().hex() for _ in range(20)])
    wire.close()


@session()
def a_request_in_pieces(play: Play) -> None:
    wire = play.raw_wire()
    for byte in framed(header(HEARTBEAT, 0) + heartbeat()):
        wire.send_bytes(bytes([byte]))
    play.tell("byte by byte", wire.take_frame().hex())
    wire.close()
