import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.config.properties import Config
from coordinator.core.time_budget import run_in_one_step
from coordinator.topics import fetch as fetch_module
from coordinator.topics import fetch_session
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.fetch_session import EVICTION_MS
from coordinator.topics.long_work import IN_ONE_STEP
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchResponse, PartitionData
from tests.topics.broker import Broker
from tests.topics.fetching import Where, by_partition, fetch_request, offsets
from tests.topics.stepped_request import SteppedRequest

V = 12
A: Where = ("orders", 0)
B: Where = ("orders", 1)
C: Where = ("orders", 2)


@pytest.fixture
def filled(broker: Broker) -> Broker:
    broker.create("orders", 3)
    broker.fill("orders", 3)
    return broker


def ask(
    broker: Broker, wanted: dict[Where, int], session: tuple[int, int], *, forget: tuple[Where, ...] = ()
) -> FetchResponse:
    return broker.ask(fetch_request(wanted, session=session, forget=forget), FetchResponse, V)


def test_a_full_fetch_opens_a_session_and_the_next_brings_only_news(filled: Broker) -> None:
    full = ask(filled, {A: 0, B: 0}, (0, 0))
    assert full.session_id != 0
    assert set(by_partition(full)) == {A, B}
    assert by_partition(ask(filled, {A: 3}, (full.session_id, 1))) == {}
    filled.fill("orders", 1, 1)
    news = by_partition(ask(filled, {}, (full.session_id, 2)))
    assert {where: offsets(data) for where, data in news.items()} == {B: [0]}


def test_a_request_without_a_session_gets_none(filled: Broker) -> None:
    assert ask(filled, {A: 0}, (0, -1)).session_id == 0
    assert len(filled.plane.fetch_sessions) == 0


def test_partitions_join_and_leave(filled: Broker) -> None:
    session = ask(filled, {A: 3}, (0, 0)).session_id
    assert set(by_partition(ask(filled, {B: 0}, (session, 1)))) == {B}
    filled.fill("orders", 1, 0)
    assert by_partition(ask(filled, {}, (session, 2), forget=(A,))) == {}


def test_an_error_is_told_each_time(filled: Broker) -> None:
    session = ask(filled, {A: 99, B: 0}, (0, 0)).session_id
    for epoch in (1, 2):
        found = by_partition(ask(filled, {}, (session, epoch)))
        assert {where: data.error_code for where, data in found.items()} == {A: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert set(by_partition(ask(filled, {A: 3}, (session, 3)))) == {A}


def test_partitions_with_records_take_turns(filled: Broker) -> None:
    for partition in (1, 2):
        filled.fill("orders", 3, partition)
    session = ask(filled, {A: 3, B: 3, C: 3}, (0, 0)).session_id
    served = []
    for epoch in (1, 2, 3):
        request = fetch_request({A: 0, B: 0, C: 0}, session=(session, epoch), max_bytes=1)
        found = by_partition(filled.ask(request, FetchResponse, V))
        served += [where for where, data in found.items() if data.records]
    assert sorted(served) == [A, B, C]


def test_wrong_epochs_and_unknown_sessions(filled: Broker) -> None:
    session = ask(filled, {A: 0}, (0, 0)).session_id
    assert ask(filled, {}, (session, 2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(filled, {}, (session + 1, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(filled, {}, (session, 1)).error_code == ErrorCode.NONE
    assert ask(filled, {}, (session, 1)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_by_name_is_not_continued_by_id(filled: Broker) -> None:
    session = ask(filled, {A: 0}, (0, 0)).session_id
    response = filled.ask(fetch_request({}, session=(session, 1)), FetchResponse, 13)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_last_epoch_ends_a_session(filled: Broker) -> None:
    session = ask(filled, {A: 0}, (0, 0)).session_id
    response = ask(filled, {A: 0}, (session, -1))
    assert response.session_id == 0
    assert offsets(by_partition(response)[A]) == [0, 1, 2]
    assert ask(filled, {}, (session, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_forgets_everything_ends(filled: Broker) -> None:
    session = ask(filled, {A: 0}, (0, 0)).session_id
    assert ask(filled, {}, (session, 1), forget=(A,)).session_id == 0
    assert len(filled.plane.fetch_sessions) == 0


def test_what_a_session_forgets_at_its_end_is_fetched_where_the_request_names_it(filled: Broker) -> None:
    session = ask(filled, {A: 0}, (0, 0)).session_id
    last = ask(filled, {A: 1}, (session, 1), forget=(A,))
    assert (last.session_id, offsets(by_partition(last)[A])) == (
        0,
        offsets(by_partition(ask(filled, {A: 1}, (0, -1)))[A]),
    )
    assert len(filled.plane.fetch_sessions) == 0


def test_a_new_full_fetch_replaces_the_session(filled: Broker) -> None:
    first = ask(filled, {A: 0}, (0, 0)).session_id
    second = ask(filled, {A: 0}, (first, 0)).session_id
    assert second not in (0, first)
    assert len(filled.plane.fetch_sessions) == 1


def test_a_topic_that_comes_back_under_its_name_is_another_one(filled: Broker) -> None:
    topic = filled.plane.catalogue.find_topic("orders")
    assert topic is not None
    request = fetch_request({A: 3}, session=(0, 0))
    request.topics[0].topic_id = topic.topic_id
    session = filled.ask(request, FetchResponse).session_id
    run_in_one_step(filled.plane.catalogue.delete_topics(IN_ONE_STEP, [topic]))
    gone = filled.ask(fetch_request({}, session=(session, 1)), FetchResponse)
    assert gone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    filled.create("orders")
    other = filled.ask(fetch_request({}, session=(session, 2)), FetchResponse)
    assert other.responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_the_places_for_sessions_are_limited(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(max_incremental_fetch_session_cache_slots=2))
    broker.create("orders", 3)
    small = ask(broker, {A: 0}, (0, 0)).session_id
    broker.advance(10)
    large = ask(broker, {A: 0, B: 0}, (0, 0)).session_id
    assert small
    assert large
    assert ask(broker, {A: 0}, (0, 0)).session_id == 0, "both are young"
    broker.advance(EVICTION_MS - 5)
    assert ask(broker, {}, (large, 1)).error_code == ErrorCode.NONE
    broker.advance(6)
    third = ask(broker, {A: 0}, (0, 0)).session_id
    assert third, "the small one was unused for two minutes"
    assert ask(broker, {}, (small, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    broker.advance(EVICTION_MS + 1)
    ask(broker, {}, (large, 2))
    ask(broker, {}, (third, 1))
    assert ask(broker, {A: 0}, (0, 0)).session_id == 0, "no larger than any that is old"
    assert ask(broker, {A: 0, B: 0}, (0, 0)).session_id, "larger than the third"
    assert ask(broker, {}, (third, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    broker.stop()


def test_the_partitions_of_all_sessions_are_limited(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(max_incremental_fetch_session_cache_partitions=3))
    broker.create("orders", 3)
    nobody = ("nobody", 0)
    first = ask(broker, {A: 0, nobody: 0}, (0, 0)).session_id
    assert first
    assert ask(broker, {A: 0, B: 0}, (0, 0)).session_id == 0, "one is left"
    second = ask(broker, {A: 0}, (0, 0)).session_id
    assert second
    too_many = ask(broker, {B: 0}, (first, 1))
    assert too_many.session_id == 0, "it has grown beyond what is left"
    assert by_partition(too_many)[B].error_code == ErrorCode.NONE
    assert ask(broker, {}, (first, 2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    third = ask(broker, {A: 0, B: 0}, (0, 0)).session_id
    assert third, "the first gave back what it had"
    assert ask(broker, {}, (third, 1), forget=(B,)).session_id == third
    assert ask(broker, {A: 0}, (0, 0)).session_id, "what is forgotten is given back"
    broker.advance(EVICTION_MS + 1)
    assert ask(broker, {A: 0, B: 0, C: 0, nobody: 0}, (0, 0)).session_id == 0, "never so many"
    assert ask(broker, {A: 0, B: 0, C: 0}, (0, 0)).session_id, "all others are stale"
    assert len(broker.plane.fetch_sessions) == 1
    broker.stop()


def test_a_session_that_ends_during_an_update_gives_its_partitions_back(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update stops at each of its checkpoints, where another request ends the session."""
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 0)
    monkeypatch.setattr(fetch_session, "PARTITIONS_PER_STEP", 1)
    broker = Broker(f"{tmp_path}/data", Config(max_incremental_fetch_session_cache_partitions=4))
    broker.create("orders", 3)
    errors = set()
    is_over, count = False, 0
    while not is_over:
        session = ask(broker, {A: 0, B: 0}, (0, 0)).session_id
        assert session, "all partitions were given back"
        update = broker.begin(fetch_request({B: 1, C: 0}, session=(session, 1), forget=(A,)), V)
        for _ in range(count):
            update.advance()
            is_over = is_over or update.is_ended
        if not is_over:
            ask(broker, {A: 0}, (session, -1))
            errors.add(finish(update).error_code)
            assert len(broker.plane.fetch_sessions) == 0
        count += 1
    assert errors == {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
    broker.stop()


def test_a_second_request_of_an_epoch_is_refused_during_an_update(
    filled: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ask(filled, {A: 3}, (0, 0)).session_id
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 0)
    monkeypatch.setattr(fetch_session, "PARTITIONS_PER_STEP", 1)
    update = filled.begin(fetch_request({B: 0}, session=(session, 1)), V)
    update.advance()
    assert ask(filled, {C: 0}, (session, 1)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert set(by_partition(finish(update))) == {B}
    assert ask(filled, {}, (session, 2)).error_code == ErrorCode.NONE


def test_a_later_request_refuses_a_response_in_the_making(
    filled: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request arrives at each of the awaits of the first one. The first one gets a complete response, or
    the refusal after which a consumer begins a new session."""
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 0)
    for module in (fetch_module, fetch_session):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 1)
    outcomes = []
    is_over, count = False, 0
    while not is_over:
        session = ask(filled, {A: 3, B: 0, C: 0}, (0, 0)).session_id
        filled.fill("orders", 1, 1)
        filled.fill("orders", 1, 2)
        first = filled.begin(fetch_request({A: 0}, session=(session, 1)), V)
        for _ in range(count):
            first.advance()
            is_over = is_over or first.is_ended
        is_second = ask(filled, {}, (session, 2)).error_code == ErrorCode.NONE
        outcomes.append(finish(first))
        assert is_second or outcomes[-1].error_code == ErrorCode.NONE
        is_complete = set(by_partition(outcomes[-1])) == {A, B, C}
        assert is_complete is (outcomes[-1].error_code == ErrorCode.NONE)
        assert is_complete or outcomes[-1].responses == []
        count += 1
    codes = {response.error_code for response in outcomes}
    assert codes == {ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.NONE}


def test_a_later_request_ends_an_update_in_steps(filled: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ask(filled, {A: 3}, (0, 0)).session_id
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 0)
    monkeypatch.setattr(fetch_session, "PARTITIONS_PER_STEP", 1)
    update = filled.begin(fetch_request({B: 0, C: 0}, session=(session, 1)), V)
    while ask(filled, {}, (session, 2), forget=(B, C)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
        update.advance()  # to the first await after the update has begun
    assert finish(update).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    filled.fill("orders", 1, 2)
    assert by_partition(ask(filled, {}, (session, 3))) == {}, "the update did not go on"


def test_a_fetch_that_forgets_many_partitions_is_answered_in_steps(
    filled: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ask(filled, {A: 3, B: 3}, (0, 0)).session_id
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 3)
    forgetting = fetch_request(
        {}, session=(session, 1), forget=[("orders", number) for number in range(1, 9)]
    )
    assert finish(filled.begin(forgetting, V)).error_code == ErrorCode.NONE
    filled.fill("orders", 1, 1)
    assert by_partition(ask(filled, {}, (session, 2))) == {}


def finish(fetch: SteppedRequest[Answer]) -> FetchResponse:
    response = fetch.finish().response
    assert isinstance(response, FetchResponse)
    return response


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("seek"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 2)),
        st.tuples(st.just("fetch")),
    ),
    max_size=25,
)


def summarize_data(data: PartitionData) -> tuple[int, int, int, bytes]:
    return data.error_code, data.high_watermark, data.log_start_offset, data.records or b""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(STEPS)
def test_a_session_tells_what_full_fetches_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    """The consumer keeps the last responses; they must equal a full fetch, records aside."""
    broker = Broker(str(tmp_path_factory.mktemp("session") / "data"))
    broker.create("orders", 3)
    session, epoch = ask(broker, {A: 0, B: 0, C: 0}, (0, 0)).session_id, 1
    wanted: dict[Where, int] = {A: 0, B: 0, C: 0}
    known: dict[Where, tuple[int, int, int]] = dict.fromkeys(wanted, (0, 0, 0))
    sent: dict[Where, int] = {}
    forgotten: list[Where] = []
    for step in [*steps, ("fetch",)]:
        where = ("orders", int(str(step[1]))) if len(step) > 1 else A
        if step[0] == "append":
            broker.fill("orders", 1, where[1])
        elif step[0] == "seek":
            wanted[where] = sent[where] = int(str(step[2]))
            if where in forgotten:
                forgotten.remove(where)
        elif step[0] == "forget" and len(wanted) > 1 and where in wanted:
            del wanted[where]
            sent.pop(where, None)
            forgotten.append(where)
        elif step[0] == "fetch":
            response = ask(broker, sent, (session, epoch), forget=tuple(forgotten))
            full = {
                where: summarize_data(data)
                for where, data in by_partition(ask(broker, wanted, (0, -1))).items()
            }
            news = {where: summarize_data(data) for where, data in by_partition(response).items()}
            assert response.session_id == session
            for where, (code, high, start, _) in news.items():
                known[where] = (code, high, start)
            for where in forgotten:
                known.pop(where, None)
            assert known == {where: data[:3] for where, data in full.items()}
            assert {w: d[3] for w, d in news.items() if d[3]} == {w: d[3] for w, d in full.items() if d[3]}
            epoch += 1
            sent.clear()
            forgotten.clear()
            # What failed once may succeed without a word from the consumer; it would seek before it goes on.
            for where, data in known.items():
                if data[0]:
                    wanted[where] = sent[where] = 0
    broker.stop()
