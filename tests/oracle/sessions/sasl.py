"""SASL authentication in frames: every state and invalid step, tokens, and closed connections."""

from typing import Any

from protocol.apis import APIS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import layout, message_info
from tests.oracle.guarded import NAMES, Stage
from tests.oracle.peers import SECURED
from tests.oracle.play import Play, Topic
from tests.oracle.sasl import FRAMES, MOST_BYTES, PLAIN_TOKENS, SILENCE_S, Talk
from tests.oracle.secured import BRIEF, SASL, SHA_256, SHA_512, make_users
from tests.oracle.session import session
from tests.oracle.sessions import (
    acls,
    rights_to_administer,
    rights_to_groups,
    rights_to_records,
    rights_to_transactions,
)
from tests.oracle.wire import Closed, NoAnswer

WELL = ("handshake 1 PLAIN", "plain 2 a good one", "metadata 12")
MOVES: dict[str, tuple[str, ...]] = {
    "well": WELL,
    "with versions first": ("versions 3", *WELL),
    "with versions of long ago": ("versions 0", *WELL),
    "with versions of today": ("versions 5", *WELL),
    "versions twice": ("versions 3", "versions 3"),
    "versions of a bad name": ("versions 3 -a", "versions 3", *WELL),
    "versions of a bad name twice": ("versions 3 -a", "versions 3 -a", "versions 0", *WELL),
    "versions afterwards": (*WELL, "versions 3", "versions 3", "heartbeat 4"),
    "a handshake of long ago": ("handshake 0 PLAIN", "bare a good one", "metadata 12"),
    "a handshake of long ago, versions first": (
        "versions 2",
        "handshake 0 PLAIN",
        "bare a good one",
        "heartbeat 0",
    ),
    "a handshake of long ago, refused": ("handshake 0 PLAIN", "bare a wrong password"),
    "a handshake of long ago, nonsense": ("handshake 0 PLAIN", "bare two parts"),
    "a handshake of long ago, then a request": ("handshake 0 PLAIN", "plain 1 a good one"),
    "an authentication of long ago": ("handshake 1 PLAIN", "plain 0 a good one", "metadata 12"),
    "an authentication of a while ago": ("handshake 1 PLAIN", "plain 1 a good one", "metadata 12"),
    "a bare token after a new handshake": ("handshake 1 PLAIN", "bare a good one"),
    "an unknown mechanism": ("handshake 1 GSSAPI", "plain 2 a good one"),
    "an unknown mechanism, long ago": ("handshake 0 GSSAPI", "bare a good one"),
    "no mechanism": ("handshake 1 ",),
    "a mechanism in small letters": ("handshake 1 plain",),
    "the oldest mechanism of SCRAM": ("handshake 1 SCRAM-SHA-1",),
    "a handshake twice": ("handshake 1 PLAIN", "handshake 1 PLAIN"),
    "a handshake twice, long ago": ("handshake 1 PLAIN", "handshake 0 PLAIN"),
    "versions instead of a token": ("handshake 1 PLAIN", "versions 3"),
    "old versions instead of a token": ("handshake 1 PLAIN", "versions 0"),
    "a token at once": ("plain 2 a good one",),
    "a token at once, long ago": ("plain 0 a good one",),
    "a token after versions": ("versions 3", "plain 2 a good one"),
    "a bare token at once": ("bare a good one",),
    "a request at once": ("metadata 12",),
    "a request after versions": ("versions 3", "heartbeat 4"),
    "a second authentication": (*WELL, "handshake 1 PLAIN", "metadata 12"),
    "a second authentication, long ago": (*WELL, "handshake 0 PLAIN", "metadata 12"),
    "a second authentication by nothing": (*WELL, "handshake 1 GSSAPI", "metadata 12"),
    "a second token": (*WELL, "plain 2 a good one", "metadata 12"),
    "a second token, long ago": (*WELL, "plain 0 a wrong password", "metadata 12"),
    "refused, then again": ("handshake 1 PLAIN", "plain 2 a wrong password", "plain 2 a good one"),
    "SCRAM": ("handshake 1 SCRAM-SHA-256", "scram 2 SCRAM-SHA-256", "metadata 12"),
    "SCRAM with the longer hash": ("handshake 1 SCRAM-SHA-512", "scram 2 SCRAM-SHA-512", "metadata 12"),
    "SCRAM, long ago": ("handshake 1 SCRAM-SHA-256", "scram 0 SCRAM-SHA-256", "metadata 12"),
    "SCRAM after another handshake": ("handshake 1 PLAIN", "scram 2 SCRAM-SHA-256"),
    "PLAIN after another handshake": ("handshake 1 SCRAM-SHA-256", "plain 2 a good one"),
    "PLAIN for a user of SCRAM": ("handshake 1 PLAIN", "plain 2 an unknown user"),
    **{f"bytes {frame}": (f"bytes {frame}",) for frame in FRAMES},
    **{f"bytes {frame}, after a handshake": ("handshake 1 PLAIN", f"bytes {frame}") for frame in FRAMES},
    **{f"bytes {frame}, long ago": ("handshake 0 PLAIN", f"bytes {frame}") for frame in FRAMES},
}


@session(setup=SECURED, moves=MOVES)
def moves_of_a_client(play: Play, moves: str) -> None:
    if any("scram" in move for move in MOVES[moves]):
        for mechanism in (SHA_256, SHA_512):
            make_users(play, play.name("alice"), mechanism=mechanism)
    talk = Talk(play).say(*MOVES[moves])
    talk.stays_open()
    talk.close()


@session(setup=SECURED, token=PLAIN_TOKENS)
def tokens_of_plain(play: Play, token: str) -> None:
    for handshake, version in ((1, 0), (1, 2)):
        talk = Talk(play).say(f"handshake {handshake} PLAIN", f"plain {version} {token}")
        talk.stays_open()
        talk.close()
    talk = Talk(play).say("handshake 0 PLAIN", f"bare {token}")
    talk.stays_open()
    talk.close()


@session(setup=SECURED)
def a_token_of_many_bytes(play: Play) -> None:
    """As long as one may be, with all that is around it; and a byte more."""
    for note, size in (("as long as may be", MOST_BYTES - 19), ("a byte more", MOST_BYTES - 18)):
        talk = Talk(play).say("handshake 1 PLAIN")
        talk.send_token(b"x" * size, note, 0)
        talk.close()


@session(setup=SECURED)
def versions_that_are_not_there(play: Play) -> None:
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for note, before, request, version, claimed in (
        ("ApiVersions", (), asked, 3, 99),
        ("ApiVersions, negative", (), asked, 3, -1),
        ("ApiVersions, after versions", ("versions 3",), asked, 3, 99),
        ("ApiVersions, instead of a token", ("handshake 1 PLAIN",), asked, 3, 99),
        ("ApiVersions, afterwards", WELL, asked, 3, 99),
        ("SaslHandshake", (), SaslHandshakeRequest(mechanism="PLAIN"), 1, 2),
        ("SaslHandshake, afterwards", WELL, SaslHandshakeRequest(mechanism="PLAIN"), 1, 2),
        ("SaslAuthenticate", ("handshake 1 PLAIN",), SaslAuthenticateRequest(auth_bytes=b"x"), 2, 3),
        ("Heartbeat", (), heartbeat, 4, 99),
        ("Heartbeat, instead of a token", ("handshake 1 PLAIN",), heartbeat, 4, 99),
        ("Heartbeat, afterwards", WELL, heartbeat, 4, 99),
    ):
        talk = Talk(play).say_quietly(*before)
        talk.ask_as_if(request, version, claimed, note)
        talk.stays_open(f"{note}, at last")
        talk.close()
    talk = Talk(play)
    talk.ask_as_if(asked, 3, 99, "ApiVersions, then one that is there")
    talk.say("versions 3", *WELL)
    talk.close()


def _fields_of_answer(request: Any, version: int) -> set[str]:
    response = APIS[message_info(type(request)).api_key].response
    return {each.name for each in layout(response, version)}


def _other_requests(play: Play) -> dict[str, tuple[Any, int]]:
    """One of each API and its newest version."""
    topics = [Topic(play.name(name), bytes([row]) * 16) for row, name in enumerate(NAMES, 1)]
    found: dict[str, tuple[Any, int]] = {}
    for rights in (rights_to_records, rights_to_groups, rights_to_transactions, rights_to_administer):
        for guarded in rights.TABLE.values():
            version = max(guarded.versions)
            request = guarded.request(Stage(play, version, topics))
            found.setdefault(type(request).__name__, (request, version))
    found |= {"DescribeAcls": (acls.describe(play), acls.NEWEST)}
    return found


@session(setup=SECURED, errors=("one", "many"))
def any_other_request_instead_of_a_token(play: Play, errors: str) -> None:
    """Each is answered as its API answers an error: of the whole request, or of each thing that it is about."""
    for name, (request, version) in _other_requests(play).items():
        if ("error_code" in _fields_of_answer(request, version)) != (errors == "one"):
            continue
        talk = Talk(play).say_quietly("handshake 1 PLAIN")
        talk.ask(request, version, name)
        talk.stays_open(f"{name}, at last")
        talk.close()


@session(setup=SECURED)
def any_other_request_at_first(play: Play) -> None:
    for name, (request, version) in _other_requests(play).items():
        talk = Talk(play)
        talk.ask(request, version, name)
        talk.close()


@session(setup=SECURED)
def sasl_where_nobody_asks(play: Play) -> None:
    for moves in (
        ("handshake 1 PLAIN",),
        ("handshake 0 GSSAPI",),
        ("plain 2 a good one",),
        ("plain 0 two parts",),
    ):
        talk = Talk(play, "").say(*moves, "metadata 12")
        talk.close()


@session(setup=SECURED)
def everything_in_one_packet(play: Play) -> None:
    """What is sent before its turn waits for it."""
    wire = play.raw_wire("talk", SASL)
    for request, version in (
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=PLAIN_TOKENS["a good one"]), 2),
        (HeartbeatRequest(group_id=play.group, generation_id=1, member_id="m"), 4),
    ):
        wire.send(request, version)
    answers = []
    try:
        answers = [wire.take(SILENCE_S).error_code for _ in range(4)]
    except (Closed, NoAnswer):
        play.tell("ended early", len(answers))
    play.tell("errors", [int(each) for each in answers])
    wire.close()


FIRSTS: dict[str, str] = {
    "a good one": "n,,n={user},r=abc",
    "its own authorization id": "n,a={user},n={user},r=abc",
    "another's authorization id": "n,a=bob,n={user},r=abc",
    "an extension": "n,,n={user},r=abc,x=y",
    "two extensions": "n,,n={user},r=abc,x=y,z=w",
    "that of delegation tokens": "n,,n={user},r=abc,tokenauth=true",
    "tokenauth=false": "n,,n={user},r=abc,tokenauth=false",
    "an extension in front": "n,,m=x,n={user},r=abc",
    "nothing": "",
    "no header": "n={user},r=abc",
    "no nonce": "n,,n={user}",
    "an empty nonce": "n,,n={user},r=",
    "a nonce with a comma": "n,,n={user},r=a,b",
    "a nonce beyond ASCII": "n,,n={user},r=aü",
    "no user": "n,,r=abc",
    "an empty user": "n,,n=,r=abc",
    "the wrong order": "n,,r=abc,n={user}",
    "an unknown user": "n,,n=nobody,r=abc",
    "a user beyond ASCII": "n,,n=ü,r=abc",
    "an equals sign": "n,,n=a=b,r=abc",
    "an escaped equals sign": "n,,n=a=3Db,r=abc",
    "an escaped comma": "n,,n=a=2Cb,r=abc",
    "a channel": "p=tls-unique,,n={user},r=abc",
    "a client that could bind": "y,,n={user},r=abc",
    "an unknown flag": "x,,n={user},r=abc",
    "a newline": "n,,n={user},r=abc\n",
}


@session(setup=SECURED, message=FIRSTS)
def first_messages_of_scram(play: Play, message: str) -> None:
    make_users(play, play.name("alice"))
    talk = Talk(play).say("handshake 1 SCRAM-SHA-256")
    talk.send_token(FIRSTS[message].format(user=play.name("alice")).encode(), message)
    talk.stays_open()
    talk.close()


_PROOF = "A" * 43 + "="
FINALS: dict[str, str] = {
    "a wrong proof": f"c=biws,r={{nonce}},p={_PROOF}",
    "a short proof": "c=biws,r={nonce},p=QUJD",
    "an empty proof": "c=biws,r={nonce},p=",
    "no proof": "c=biws,r={nonce}",
    "a proof that is none": "c=biws,r={nonce},p=?!",
    "an extension": f"c=biws,r={{nonce}},x=y,p={_PROOF}",
    "another nonce": f"c=biws,r=abcdef,p={_PROOF}",
    "its own nonce": f"c=biws,r=abc,p={_PROOF}",
    "another header": f"c=eSws,r={{nonce}},p={_PROOF}",
    "no header": f"r={{nonce}},p={_PROOF}",
    "nothing": "",
    "the first again": "n,,n=alice,r=abc",
}


@session(setup=SECURED, message=FINALS)
def final_messages_of_scram(play: Play, message: str) -> None:
    make_users(play, play.name("alice"))
    talk = Talk(play).say("handshake 1 SCRAM-SHA-256")
    answer = talk.send_token(f"n,,n={play.name('alice')},r=abc".encode(), "first")
    nonce = answer.auth_bytes.decode().partition(",")[0].removeprefix("r=")
    talk.send_token(FINALS[message].format(nonce=nonce).encode(), message)
    talk.stays_open()
    talk.close()


@session(setup=SECURED, mechanism=(SHA_256, SHA_512))
def a_wrong_password_of_scram(play: Play, mechanism: str) -> None:
    make_users(play, play.name("alice"), mechanism=mechanism)
    for note, user, password in (("wrong", "alice", "wrong"), ("nobody's", "nobody", "wrong")):
        talk = Talk(play, by=note).say(f"handshake 1 {mechanism}")
        talk.scram(2, mechanism, play.name(user), password)
        talk.stays_open()
        talk.close()


@session(setup=SECURED)
def a_user_of_the_other_hash(play: Play) -> None:
    make_users(play, play.name("alice"), mechanism=SHA_512)
    talk = Talk(play).say("handshake 1 SCRAM-SHA-256", "scram 2 SCRAM-SHA-256")
    talk.stays_open()
    talk.close()


@session(setup=SECURED, version=(0, 1, 2))
def how_long_a_session_lasts(play: Play, version: int) -> None:
    for listener in (SASL, BRIEF):
        talk = Talk(play, listener, listener).say(
            "handshake 1 PLAIN", f"plain {version} a good one", "metadata 12"
        )
        talk.close()
