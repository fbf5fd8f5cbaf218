"""Configs of groups for share groups and streams groups, for any type of group, although groupd serves neither."""

from tests.oracle.peers import CONSUMERS
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.sessions.configs import APPEND, DELETE, GROUP, SET, SUBTRACT, Change, alter, describe

VALUES: dict[str, tuple[str, ...]] = {
    "consumer.assignor.offload.enable": ("", "yes", "false"),
    "share.session.timeout.ms": ("0", "44999", "45000", "60001", "x", "60000"),
    "share.heartbeat.interval.ms": ("0", "4999", "5000", "15001", "", "15000"),
    "share.record.lock.duration.ms": ("999", "14999", "15000", "60001", "1.5", "60000"),
    "share.delivery.count.limit": ("1", "11", "10", "2"),
    "share.partition.max.record.locks": ("99", "4001", "4000", "100"),
    "share.auto.offset.reset": (
        *(
            "earliest",
            "LATEST",
            "none",
            "",
            "by_duration",
            "by_duration:",
            "by_duration:PT",
            "by_duration:P1Y",
        ),
        *(
            "by_duration:-PT1H",
            "by_duration:-PT-1H",
            "by_duration:PT1H-61M",
            "By_duration:PT1H",
            "by_duration:P",
        ),
        *(
            "by_duration:PT-0.5S",
            "by_duration:PT0.0000000001S",
            "by_duration:p1dt2h3m4,5s",
            "by_duration:P1DT",
        ),
        *(
            "by_duration:P106751991167301D",
            "by_duration:PT9223372036854775808S",
            " earliest ",
            "by_duration:PT1H",
        ),
    ),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", " read_uncommitted ", "", "read_committed"),
    "share.renew.acknowledge.enable": (" FALSE ", "no", "false"),
    "share.assignment.interval.ms": ("-1", "15001", "0", "15000"),
    "share.assignor.offload.enable": ("0", "false"),
    "streams.session.timeout.ms": ("0", "44999", "60001", "60000"),
    "streams.heartbeat.interval.ms": ("0", "4999", "15001", "15000"),
    "streams.num.standby.replicas": ("-1", "3", "2"),
    "streams.initial.rebalance.delay.ms": ("-1", "0", "2147483648", "2147483647"),
    "streams.assignment.interval.ms": ("-1", "15001", "0"),
    "streams.assignor.offload.enable": ("true",),
    "streams.task.offset.interval.ms": ("0", "14999", "15000", "2147483647"),
    "streams.num.warmup.replicas": ("-1", "21", "20"),
    "streams.rack.aware.assignment.tags": ("a,a", ",", "a,", "a,,b", " a , b ", "", "a,b"),
    "streams.acceptable.recovery.lag": ("-1", "9223372036854775808", "9223372036854775807"),
    "streams.assignor.name": ("x", "", "Sticky", " sticky ", "sticky"),
    "errors.deadletterqueue.topic.name": ("__x", "a b", "", "letters"),
    "errors.deadletterqueue.copy.record.enable": ("True", "1", "true"),
}
"""Values to set one after the other, by config; the last one stays."""


@session(setup=CONSUMERS, config=VALUES)
def a_config_of_groups_that_are_not_served(play: Play, config: str) -> None:
    for value in VALUES[config]:
        change = (config, SET, value)
        checked = alter(change, name=play.group, kind=GROUP, validate_only=True)
        play.ask(checked, 1, note=f"{value!r}, validated")
        play.ask(alter(change, name=play.group, kind=GROUP), 1, note=repr(value))
    for how in (APPEND, SUBTRACT):
        play.ask(alter((config, how, "a"), name=play.group, kind=GROUP), 1, note=f"operation {how}")
    _await(play, config, VALUES[config][-1])
    play.ask(describe((GROUP, play.group, [config]), synonyms=True), 4, note="set")
    play.ask(alter((config, DELETE, None), name=play.group, kind=GROUP), 1, note="removed")


SESSION, INTERVAL, LETTERS = (
    "share.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "errors.deadletterqueue.topic.name",
)
SEVERAL: dict[str, list[Change]] = {
    "a good one and a bad one": [(SESSION, SET, "50000"), (LETTERS, SET, "__x")],
    "a bad one and an unknown one": [(SESSION, SET, "x"), ("share.x", SET, "1")],
    "of three kinds": [
        (SESSION, SET, "50000"),
        (INTERVAL, SET, "7"),
        ("streams.assignor.name", SET, "sticky"),
    ],
    "a session as long as a heartbeat may be": [
        (SESSION, SET, "45000"),
        ("share.heartbeat.interval.ms", SET, "15000"),
    ],
    "one that is not shown": [("streams.num.warmup.replicas", SET, "7")],
}


@session(setup=CONSUMERS)
def several_configs_of_groups_that_are_not_served(play: Play) -> None:
    play.ask(describe((GROUP, play.group, ["streams.num.warmup.replicas"])), 4, note="one that is not shown")
    for note, changes in SEVERAL.items():
        play.ask(alter(*changes, name=play.group, kind=GROUP), 1, note=note)
    _await(play, "streams.num.warmup.replicas", "7")
    play.ask(describe((GROUP, play.group, None), synonyms=True), 4)


def _await(play: Play, config: str, value: str) -> None:
    def reached() -> bool:
        configs = play.ask(describe((GROUP, play.group, [config])), 4).results[0].configs
        return [each.value for each in configs] == [value]

    play.until(reached)
