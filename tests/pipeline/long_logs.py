"""Long random logs that are the same for the same seed, with transactions, and the rows that count of them."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

from storage.batch import read_header
from tests.pipeline.random_logs import Log, logs
from tests.pipeline.silver_tables import Rows
from tests.pipeline.test_decode import commit_record, plain


def example_log(seed: int, *, strange: bool = True, batches: int = 30) -> Log:
    """A long random log, the same for the same seed."""
    found: list[Log] = []

    @with_seed(seed)
    @settings(
        max_examples=12, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(logs(strange=strange))
    def collect(log: Log) -> None:
        found.append(log)

    collect()
    whole = Log()
    for log in found:
        for batch in log.batches[: max(0, batches - len(whole.batches))]:
            whole.batches.append(moved(batch, whole.next_offset))
    return whole


def moved(batch: bytes, base_offset: int) -> bytes:
    """The batch at another place of the log: its offset is not under the checksum."""
    return base_offset.to_bytes(8, "big") + batch[8:]


def add_transactions(log: Log) -> None:
    """Some that are committed, aborted and interleaved."""
    for number in range(6):
        producer_id = number % 2
        some = [commit_record("transactional", number)]
        log.append(some, producer_id=producer_id, producer_epoch=0, is_transactional=True)
        log.append([commit_record("plain", number)])
        if number % 2:
            log.end_transaction(1 - producer_id, is_committed=number % 4 == 1)
    log.end_transaction(0, is_committed=True)
    log.end_transaction(1, is_committed=True)


def counted(log: Log, number: int) -> Rows:
    """Return the rows of the reference decoder without aborted and control records."""
    open_ones: dict[int, list[bytes]] = {}
    aborted: set[int] = set()
    for batch in log.batches:
        header = read_header(batch)
        if header.is_control:
            transaction = open_ones.pop(header.producer_id, [])
            if b"\0\0\0\0" in batch[61:72]:
                aborted |= {read_header(one).base_offset for one in transaction}
            aborted.add(header.base_offset)
        elif header.is_transactional:
            open_ones.setdefault(header.producer_id, []).append(batch)
    kept = [batch for batch in log.batches if read_header(batch).base_offset not in aborted]
    return [row | {"log_partition": number} for row in plain(b"".join(kept))[0]]
