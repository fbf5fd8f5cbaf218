from coordinator.broker.log_cleaner import list_compactable_logs
from tests.runtime.bench import Bench
from tests.runtime.counter import Add, AddWithin, End
from tests.storage.faulty_files import FaultyFiles


async def test_an_internal_log_is_compacted_up_to_where_a_transaction_is_open() -> None:
    bench = Bench(FaultyFiles())
    assert list(list_compactable_logs(tuple, {"counters": bench.counters}, None)) == []
    await bench.take_all()
    partition = bench.counters.find_partition("a")
    for request, compactable_to in (
        (Add("a", 1), 1),
        (AddWithin("a", 1, 7), 1),
        (Add("a", 1), 1),
        (End(7), 4),
    ):
        await bench.ask(bench.counters, "a", request)
        (found,) = [
            each
            for each in list_compactable_logs(tuple, {"counters": bench.counters}, None)
            if each.partition == partition.name
        ]
        assert found.log is partition.log
        assert found.readable_offset == compactable_to
    await bench.close()
