"""Names of classes in recordings, metrics, events, faults and the API outlast the classes' own names."""

import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from coordinator.broker.consumer_group_log_lines import CONSUMER_GROUP_LINES
from coordinator.broker.group_event_log import GROUP_LINES
from coordinator.cluster import cluster_session
from coordinator.control.recording.group_recording import GroupRecording
from coordinator.control.recording.recorded_classes import RECORDED_CLASSES, TAGS
from coordinator.core.outcome import Context, MachineEvent, Now, Work, WorkDone
from coordinator.core.wire_name import get_wire_name, wire_name
from coordinator.group.consumer.regex_resolution import REGEX_WORK
from coordinator.group.group_requests import RepeatedCommit, Request
from coordinator.http.api.openapi import create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.golden import group_events, wire_names
from tests.golden.group_events import describe_events
from tests.golden.recording import GROUPS, RESULTS, file_name, play
from tests.golden.test_conversation import differences
from tests.golden.versions import VERSIONS, golden_path, read_json
from tests.golden.wire_names import find_wire_names
from tests.group.new_shard import new_shard

both_names = pytest.mark.parametrize("is_renamed", [False, True], ids=["as they are", "renamed"])


@both_names
@pytest.mark.parametrize("version", VERSIONS)
def test_names_stay(version: str, is_renamed: bool, rename_classes: Callable[[], None]) -> None:
    recorded = read_json(version, wire_names.FILE)
    if is_renamed:
        rename_classes()
    now = find_wire_names()
    if is_renamed:
        # Kafka gives messages and records their names: the class names are Kafka's.
        del recorded["messages"]
    lost = {kind: set(names) - set(now[kind]) for kind, names in recorded.items()}
    assert not any(lost.values()), lost


@both_names
@pytest.mark.parametrize("version", VERSIONS)
def test_events_look_as_they_did(version: str, is_renamed: bool, rename_classes: Callable[[], None]) -> None:
    recorded = read_json(version, group_events.FILE)
    assert {"metrics", "stream", "summary", "triggers"} < recorded.keys()
    if is_renamed:
        rename_classes()
    assert differences(recorded, describe_events(version, recorded["fault"]), volatile=set()) == []


@pytest.mark.parametrize("group_id", GROUPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_recordings_play_with_renamed_classes(
    version: str, group_id: str, rename_classes: Callable[[], None]
) -> None:
    rename_classes()
    path = golden_path(version, file_name(group_id))
    assert play(Path(path).read_bytes()) == read_json(version, RESULTS)[group_id]


def test_lines_of_a_recording_name_requests_as_they_did(rename_classes: Callable[[], None]) -> None:
    rename_classes()
    now, context = Now(0, 0), Context(1, 4, "alice", "/127.0.0.1")
    recording = GroupRecording("billing", new_shard(), now, 1 << 20)
    request = HeartbeatRequest(group_id="billing", generation_id=1, member_id="alice-1")
    assert recording.build_request_line(request, context, now)["request"] == "HeartbeatRequest"
    done = WorkDone(Work(REGEX_WORK, None), None)
    assert recording.build_request_line(done, context, now)["request"] == "WorkDone"
    recording.add_heartbeat(request, context, 1, HeartbeatResponse(error_code=0))
    assert b'{"n":1,"beat":"HeartbeatRequest",' in b"".join(recording.pieces())


def test_the_document_of_the_api_stays_the_same_with_renamed_classes(
    rename_classes: Callable[[], None],
) -> None:
    before = create_openapi(ALL_ROUTES, ALL_STREAMS)
    rename_classes()
    assert create_openapi(ALL_ROUTES, ALL_STREAMS) == before


# What must have a name


def subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        yield cls
        yield from subclasses(cls)


def test_every_event_declares_a_wire_name() -> None:
    logged = {*GROUP_LINES, *CONSUMER_GROUP_LINES, *typing.get_args(cluster_session.SessionEvent)}
    assert all(map(get_wire_name, logged))
    leaves = {cls for cls in subclasses(MachineEvent) if cls.__module__.startswith("coordinator.")}
    for cls in leaves:
        if not cls.__subclasses__():
            assert get_wire_name(cls), cls


def test_a_subclass_does_not_inherit_a_wire_name() -> None:
    @wire_name("Parent")
    class Parent:
        pass

    class Child(Parent):
        pass

    assert get_wire_name(Parent) == "Parent"
    with pytest.raises(KeyError):
        get_wire_name(Child)


def mentioned(hint: Any) -> Iterator[type[Any]]:
    """The classes in an annotation."""
    inner = typing.get_args(hint)
    if isinstance(hint, type) and not inner:
        yield hint
    for each in inner:
        yield from mentioned(each)


def test_everything_in_a_recorded_value_is_recorded() -> None:
    assert len(TAGS) == len(RECORDED_CLASSES), "two tags of one class"
    # A recorded machine gets no repeated commits.
    assert set(typing.get_args(Request)) - {RepeatedCommit} <= TAGS.keys()
    unknown = {
        (cls, name, each)
        for cls in TAGS
        if not issubclass(cls, Enum)
        for name, hint in typing.get_type_hints(cls).items()
        for each in mentioned(hint)
        if each.__module__.partition(".")[0] in ("coordinator", "protocol") and each not in TAGS
    }
    assert unknown == set()
