"""The generated source is readable Python, and gives the results of the codec."""

import pytest

from protocol import codec, codegen
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.primitives import DecodingBudget


def test_printing_the_codec_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert codegen.main(["HeartbeatRequest", "4"]) == 0
    printed = capsys.readouterr().out
    compile(printed, "printed", "exec")
    assert "def decode(data, p=0):" in printed
    assert "def write(message, out):" in printed


@pytest.mark.parametrize(
    "arguments", [[], ["HeartbeatRequest"], ["Nonsense", "0"], ["HeartbeatRequest", "x"]]
)
def test_a_wrong_call_says_how_to_call(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert codegen.main(arguments) == 2
    assert "python -m protocol.codegen" in capsys.readouterr().err


def test_a_version_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert codegen.main(["HeartbeatRequest", "5"]) == 2
    assert "0-4" in capsys.readouterr().err


def test_functions_made_from_the_source_read_what_they_write() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")
    write = codegen.compile_function(codegen.generate_encoder(HeartbeatRequest, 4), "write", "a test")
    decode = codegen.compile_function(codegen.generate_decoder(HeartbeatRequest, 4), "decode", "a test")
    out = bytearray()
    write(message, out)
    assert decode(bytes(out)) == message


def test_servers_of_one_process_share_the_generated_functions() -> None:
    """Generating them takes milliseconds, and a namespace of a daemon has a table of routes of its own."""
    first, second, smaller = (
        codec.request_decoder(HeartbeatRequest, 4, DecodingBudget(elements)) for elements in (100, 100, 99)
    )
    assert first is second
    assert first is not smaller
    assert codec.bounded_writer(HeartbeatRequest, 4) is codec.bounded_writer(HeartbeatRequest, 4)
