"""Every message at every version: generated codec, reference codec and an independent one agree on its bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec, reference_codec
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.protocol.declared import ALL, DATA, examples, full, name, random_messages
from tests.protocol.peers import peer_for, values_of


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_the_codecs_agree(declared: tuple[type[Any], int]) -> None:
    cls, version = declared
    peer = peer_for(cls, version)

    for message in random_messages(cls, version, 8):
        data = codec.encode(message, version)
        assert codec.decode(cls, version, data) == message
        assert reference_codec.encode(message, version) == data
        assert reference_codec.decode(cls, version, data) == message
        if peer is not None:
            assert peer(data) == (values_of(message, version), data)


def test_only_the_newest_versions_and_log_records_lack_an_independent_codec() -> None:
    without = {cls for cls, version in ALL if peer_for(cls, version) is None}
    assert without - set(DATA) == {
        ApiVersionsRequest,  # v5
        ApiVersionsResponse,
        DeleteGroupsRequest,  # v3
        DeleteGroupsResponse,
        DescribeLogDirsRequest,  # v5
        DescribeLogDirsResponse,
        TxnOffsetCommitRequest,  # v6
        TxnOffsetCommitResponse,
    }


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_a_message_may_lie_anywhere_in_the_data(declared: tuple[type[Any], int]) -> None:
    cls, version = declared
    message = full(cls, version)
    data = codec.encode(message, version)
    assert codec.decode(cls, version, b"\xff\xff\xff" + data, 3) == message
    assert codec.decode_prefix(cls, version, data + b"\xff\xff") == message


@examples(200)
@given(version=st.integers(-3, 40), declared=st.sampled_from(sorted(ALL, key=name)))
def test_a_version_that_a_message_lacks_is_a_value_error(
    version: int, declared: tuple[type[Any], int]
) -> None:
    cls = declared[0]
    if (cls, version) in ALL:
        codec.codec(cls, version)
        reference_codec.construct_for(cls, version)
        return
    with pytest.raises(ValueError, match="version"):
        codec.codec(cls, version)
    with pytest.raises(ValueError, match="version"):
        reference_codec.construct_for(cls, version)
