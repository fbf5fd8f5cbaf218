"""SCRAM users: permissions to alter and describe them, and invalid alterations."""

from typing import Any

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.sasl import Talk
from tests.oracle.secured import SHA_256, SHA_512, enter, make_users, upsertion
from tests.oracle.session import session

CLIENT = "alice"
LISTED = 1
"""The mechanism of `SHA_256`."""


def alter(
    *upsertions: ScramCredentialUpsertion, gone: tuple[tuple[str, int], ...] = ()
) -> AlterUserScramCredentialsRequest:
    """Build a request. `upsertions` are created or changed users, `gone` deleted (name, mechanism) pairs."""
    deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in gone]
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=list(upsertions))


def describe(*names: str) -> DescribeUserScramCredentialsRequest:
    """Who of these there is."""
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


UNUSUAL: dict[str, dict[str, Any]] = {
    "too few iterations": {"iterations": 4095},
    "no iterations": {"iterations": 0},
    "negative iterations": {"iterations": -1},
    "the most iterations": {"iterations": 16_384},
    "too many iterations": {"iterations": 16_385},
    "an unknown mechanism": {"mechanism": 0},
    "a mechanism that there is not": {"mechanism": 3},
    "an empty salt": {"salt": b""},
    "a short salted password": {"salted_password": b"x"},
    "a long salt": {"salt": b"s" * 1000},
}


@session(setup=SECURED, credential=UNUSUAL)
def a_credential_that_is_unusual(play: Play, credential: str) -> None:
    fields = {**UNUSUAL[credential]}
    wanted = upsertion(play.name("odd"))
    for name, value in fields.items():
        setattr(wanted, name, value)
    answer = play.ask(alter(wanted), 0)
    if answer.results[0].error_code == 0:
        play.until(lambda: play.ask(describe(play.name("odd")), 0).results[0].error_code == 0)
    play.ask(describe(play.name("odd")), 0)


@session(setup=SECURED)
def users_that_are_changed_twice(play: Play) -> None:
    one, two = play.name("one"), play.name("two")
    make_users(play, one, two)
    for note, request in {
        "set twice": alter(upsertion(one), upsertion(one, SHA_512)),
        "deleted twice": alter(gone=((one, 1), (one, 1))),
        "deleted twice, one of which is not there": alter(gone=((one, 1), (one, 2))),
        "deleted and set": alter(upsertion(one), gone=((one, 1),)),
        "not there and set": alter(upsertion(play.name("new")), gone=((play.name("new"), 1),)),
        "set well and badly": alter(upsertion(one), upsertion(one, iterations=1)),
        "set badly and well": alter(upsertion(one, iterations=1), upsertion(one)),
        "badly twice": alter(upsertion(one, iterations=1), upsertion(one, iterations=1)),
        "one badly, one well": alter(upsertion(one, iterations=1), upsertion(two)),
        "nobody": alter(),
        "without a name": alter(upsertion(""), gone=(("", 1),)),
        "deleted without a name": alter(gone=(("", 1),)),
        "deleted by an unknown mechanism": alter(gone=((one, 0), (two, 9))),
        "deleted that is not there": alter(gone=((play.name("nobody"), 1),)),
    }.items():
        play.ask(request, 0, note=note)
    play.ask(describe(one, two, play.name("new")), 0)


@session(setup=SECURED)
def users_that_are_asked_for(play: Play) -> None:
    one, two = play.name("one"), play.name("two")
    make_users(play, one, two)
    make_users(play, one, mechanism=SHA_512)
    play.ask(describe(one), 0, note="one with both mechanisms")
    play.ask(describe(one, two, play.name("nobody")), 0, note="one that is not there")
    play.ask(describe(one, one), 0, note="twice")
    play.ask(describe(two, one, two), 0, note="twice, with another between")
    play.ask(describe(""), 0, note="without a name")
    for note, users in (("all", None), ("an empty list", [])):
        with play.quietly():
            answer = play.ask(DescribeUserScramCredentialsRequest(users=users), 0)
        mine = sorted(each.user for each in answer.results if play.suffix in each.user)
        play.tell(note, [play.names.text(each) for each in mine])


@session(setup=SECURED)
def all_users_for_who_may_not_see_them(play: Play) -> None:
    """An empty list requests all users; Kafka does not respond to null."""
    enter(play, CLIENT)
    play.ask(DescribeUserScramCredentialsRequest(users=[]), 0, CLIENT)


@session(setup=SECURED)
def a_user_that_goes(play: Play) -> None:
    """An existing connection survives the deletion; a new login fails."""
    enter(play, CLIENT)
    name = play.name(CLIENT)
    play.ask(describe(name), 0, CLIENT, "while there")
    play.ask(alter(gone=((name, LISTED),)), 0)
    play.until(lambda: play.ask(describe(name), 0).results[0].error_code != 0)
    play.ask(describe(name), 0, CLIENT, "while still in")
    Talk(play).say(f"handshake 1 {SHA_256}", f"scram 2 {SHA_256}").close()


@session()
def users_without_an_authorizer(play: Play) -> None:
    name = play.name("one")
    play.ask(alter(upsertion(name)), 0)
    play.until(lambda: play.ask(describe(name), 0).results[0].error_code == 0)
    play.ask(describe(name), 0)
