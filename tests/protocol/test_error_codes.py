"""The table of errors against Kafka's own."""

from protocol.error_codes import ErrorCode
from tests.protocol.error_code_recording import RecordedErrorCode, read


def test_codes_names_retries_and_messages_are_kafkas() -> None:
    groupd_codes = [RecordedErrorCode(code, code.name, code.retriable, code.message) for code in ErrorCode]
    assert sorted(groupd_codes) == sorted(read())
