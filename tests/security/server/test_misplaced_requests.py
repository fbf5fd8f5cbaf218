"""The answer to a request in the place of a token: every version of every API has one that its clients can read."""

import pytest

from coordinator.security.server.sasl_exchange import encode_misplaced_response
from protocol.apis import APIS, Api
from protocol.codec import decode
from protocol.framing import response_body_position


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_an_answer_in_its_own_form(api: Api) -> None:
    for version in range(api.versions.first, api.versions.last + 1):
        answer = encode_misplaced_response(api.key, version, 7)
        size, frame = int.from_bytes(answer[:4], "big"), answer[4:]
        assert size == len(frame)
        assert frame[:4] == b"\0\0\0\7"
        decode(api.response, version, frame, response_body_position(api.key, version, frame))
