"""How many Produce and Fetch requests does a second of server CPU answer?

The broker of a test environment mostly does that. Produce appends small batches. Fetch reads records that are
there; a fetch that waits for records costs nothing meanwhile. All fetches come first, because a Produce changes the
answers to them.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from struct import Struct
from typing import Final

from benchmarks.commit import ALWAYS, FLUSH, OPTIONS, PAGE_CACHE
from benchmarks.comparison import (
    QUANTILES,
    Pace,
    columns,
    compare_sides,
    figures,
    latency_ratios,
)
from benchmarks.connection import CORRELATION_ID, Connection, encode_frame
from benchmarks.flood import Load, Repeated, Side
from benchmarks.groups import CONNECTIONS
from benchmarks.member import TOPIC
from benchmarks.peers import KAFKA, Peers, start_peers
from benchmarks.process import Server, groupd
from benchmarks.producer import PRODUCE_VERSION, RECORDS, VALUE
from benchmarks.report import Report
from benchmarks.warm_up import method
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import encode_response, response_body_position
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.schema import message_info
from storage.batch import encode_batch
from storage.record import Record

FULL: Final = Pace(5, 0.5, 8)
"""Shorter than others: a second of Produce is up to 100 MB of records."""
LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 5))
"""Five is what clients have in flight by default."""
PARTITIONS: Final = 6
"""Of the topic, as many as `OPTIONS` declares."""
FETCH_VERSION: Final = 12
FETCHED_BATCHES: Final = 10
_MANY_BYTES: Final = 1 << 20
_INT64: Final = Struct(">q")
_SOME_OFFSET: Final = 0x0123456789ABCDEF
PRODUCE, FETCH = "Produce", "Fetch"
_OURS: Final = {"always": ALWAYS, "os": PAGE_CACHE}
RATES: Final = {
    f"{request}, {load}, {flush} to Kafka": (request, load, ours)
    for request, flushes in ((FETCH, ("os",)), (PRODUCE, ("always", "os")))
    for load in LOADS
    for flush, ours in _OURS.items()
    if flush in flushes
}
LATENCIES: Final = {
    f"{request}, {LOADS[0]}, {label} of os to Kafka": (request, quantile)
    for request in (FETCH, PRODUCE)
    for quantile, label in QUANTILES.items()
}
FIGURES: Final = (*RATES, *LATENCIES)


def produce_request(partition: int, timestamp_ms: int) -> ProduceRequest:
    """A Produce of one batch to one partition, which all replicas are to have."""
    records = encode_batch([Record(0, timestamp_ms, None, VALUE) for _ in range(RECORDS)], leader_epoch=-1)
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )


def produce_frame(partition: int) -> bytes:
    """The frame of a Produce of this moment: retention would delete older records."""
    return encode_frame(produce_request(partition, int(time.time() * 1000)), PRODUCE_VERSION)


def fetch_frame(partition: int) -> bytes:
    """A Fetch of the first batches of one partition, outside of a session."""
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=_MANY_BYTES)
    return encode_frame(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_MANY_BYTES,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        ),
        FETCH_VERSION,
    )


def base_offset_bytes(answer: bytes) -> slice:
    """Return where the base offset lies in the frame that answers `produce_frame`."""
    key = message_info(ProduceRequest).api_key
    position = response_body_position(key, PRODUCE_VERSION, answer[4:])
    response = decode(ProduceResponse, PRODUCE_VERSION, answer[4:], position)
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    assert partition.error_code == ErrorCode.NONE, ErrorCode(partition.error_code)
    partition.base_offset = _SOME_OFFSET
    frame = encode_response(key, PRODUCE_VERSION, CORRELATION_ID, response)
    assert len(frame) == len(answer)
    start = bytes(frame).index(_INT64.pack(_SOME_OFFSET))
    return slice(start, start + _INT64.size)


def _check_fetched(answer: bytes) -> None:
    position = response_body_position(message_info(FetchRequest).api_key, FETCH_VERSION, answer[4:])
    (topic,) = decode(FetchResponse, FETCH_VERSION, answer[4:], position).responses
    (partition,) = topic.partitions
    assert partition.error_code == ErrorCode.NONE, ErrorCode(partition.error_code)
    assert partition.high_watermark == FETCHED_BATCHES * RECORDS, partition.high_watermark
    assert len(partition.records or b"") > FETCHED_BATCHES * RECORDS * len(VALUE)


async def _fill(server: Server) -> None:
    """Append the batches to every partition that Fetch reads."""
    connection = await Connection.open(server)
    for partition in range(PARTITIONS):
        for _ in range(FETCHED_BATCHES):
            base_offset_bytes(await connection.exchange(produce_frame(partition)))
    connection.transport.abort()


async def _side(server: Server, request: str) -> Side:
    """Connections that send one request, the partitions in turn."""
    connections = []
    for number in range(CONNECTIONS):
        connection = await Connection.open(server)
        frame = (fetch_frame if request == FETCH else produce_frame)(number % PARTITIONS)
        repeated = await Repeated.prepare(connection, [frame])
        (answer,) = repeated.answers
        if request == FETCH:
            _check_fetched(answer)
        else:
            repeated = replace(repeated, varying=base_offset_bytes(answer))
        connections.append(repeated)
    return Side(server, connections)


async def measure(pace: Pace = FULL, others: Sequence[str] = (KAFKA,)) -> Report:
    """All servers in turn, with each load, first Fetch and then Produce."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(groupd(*OPTIONS, "-o", f"log.flush={flush}"))
            for name, flush in FLUSH.items()
        }
        peers = await start_peers(stack, others, TOPIC, (), PARTITIONS)
        servers |= peers.servers
        for server in servers.values():
            await _fill(server)
        report = _report(peers, pace)
        for request in (FETCH, PRODUCE):
            sides = {name: await _side(server, request) for name, server in servers.items()}
            seen = await compare_sides(report, sides, list(FLUSH), LOADS, pace, request)
            wanted = {
                figure: (load, ours, KAFKA)
                for figure, (of_request, load, ours) in RATES.items()
                if of_request == request
            }
            report.figures |= figures(seen, wanted)
            if KAFKA in sides:
                for figure, (of_request, quantile) in LATENCIES.items():
                    if of_request == request:
                        waits = latency_ratios(seen, PAGE_CACHE, KAFKA, LOADS[0], quantile)
                        report.figures[figure] = median(waits)
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Produce and Fetch per server CPU-second",
        f"{CONNECTIONS} connections with 1 or 5 requests in flight each, each for one of {PARTITIONS} partitions. "
        f"Produce v{PRODUCE_VERSION}: a batch of {RECORDS} records of {len(VALUE)} bytes, `acks=all`, one replica. "
        f"Fetch v{FETCH_VERSION}: {FETCHED_BATCHES} such batches, from offset 0, outside of a fetch session. "
        f"{pace.rounds} rounds of {pace.seconds:g} s, the servers in turn. `always`: the answer to a Produce waits "
        "for fdatasync; `os`: it waits for the write, as Kafka's does. Kafka: a real broker, with the JVM options "
        f"of its start script.{peers.left_out} {method(pace.windows)} Latency is seen by the client. Busy: the "
        "server's share of one core.",
        columns(list(FLUSH), "requests per CPU-second", "request"),
    )
