"""The error table against independent ones."""

from kio.schema.errors import ErrorCode as KioErrorCode

from protocol.error_codes import MESSAGES, RETRIABLE, ErrorCode


def test_names_and_numbers_are_those_of_kio() -> None:
    theirs = {code.name.upper(): int(code) for code in KioErrorCode}
    ours = {code.name: int(code) for code in ErrorCode if code in theirs.values()}
    assert ours == theirs


def test_the_errors_that_are_newer_than_kio() -> None:
    newest = max(map(int, KioErrorCode))
    assert {code.name: int(code) for code in ErrorCode if code > newest} == {
        "GROUP_DELETION_FAILED": 134,
        "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": 135,
        "CONTROLLER_ID_NOT_REGISTERED": 136,
    }


def test_the_same_errors_may_be_retried_as_in_kio() -> None:
    known = set(map(int, KioErrorCode))
    assert {int(code) for code in RETRIABLE} & known == {int(code) for code in KioErrorCode if code.retriable}
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert not ErrorCode.FENCED_INSTANCE_ID.retriable


def test_an_error_without_a_sentence_says_its_name() -> None:
    silent = next(code for code in ErrorCode if code not in MESSAGES)
    assert silent.message == silent.name
    assert ErrorCode.NON_EMPTY_GROUP.message == MESSAGES[ErrorCode.NON_EMPTY_GROUP]
