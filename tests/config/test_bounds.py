"""Values beyond the bounds of every property: the bounds are those of Kafka's classes, and a start reports the
bad value."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import coordinator.daemon
from coordinator.cli.serve import serve as command
from coordinator.config.config_def import HIDDEN_PASSWORD, ConfigKey, ConfigType, InvalidConfig
from coordinator.config.properties import SYNONYMS, is_property
from coordinator.config.unsupported_settings import is_ignored_property
from tests.cli.test_serve import groupd
from tests.config.explained import EXPLAINED, OWN, UNDEFINED, Explained
from tests.config.kafka import Definition, definitions
from tests.config.values import KEYS, candidates, is_taken

ALL = [(of, key) for of, keys in KEYS.items() for key in keys.values()]
OF_KAFKA = [(of, key) for of, key in ALL if key.name not in (*OWN, *UNDEFINED)]


def name_of(of_and_key: tuple[str, ConfigKey]) -> str:
    return f"{of_and_key[0]}-{of_and_key[1].name}"


def is_to_be_taken(key: ConfigKey, value: str, definition: Definition) -> bool:
    """Return whether Kafka accepts a value, apart from explained differences."""
    known = [known for known in EXPLAINED if key.name in known.names]
    if value in definition.taken:
        return not any(difference.refuses(value) for difference in known)
    return any(difference.takes(value) for difference in known)


# Against Kafka


@pytest.mark.parametrize("of_and_key", OF_KAFKA, ids=name_of)
def test_type_and_default_are_kafkas(of_and_key: tuple[str, ConfigKey]) -> None:
    of, key = of_and_key
    definition = definitions()[of, key.name]
    assert key.kind.name == definition.kind
    explained = any(key.name in known.names and known.is_default for known in EXPLAINED)
    assert (key.default == (definition.default or "")) is not explained


@pytest.mark.parametrize("of_and_key", OF_KAFKA, ids=name_of)
def test_a_value_is_taken_where_kafka_takes_it(of_and_key: tuple[str, ConfigKey]) -> None:
    of, key = of_and_key
    definition = definitions()[of, key.name]
    for value in candidates(key):
        assert value in definition.taken or value in definition.refused, "record again: Kafka was not asked"
        assert is_taken(of, {key.name: value}) is is_to_be_taken(key, value, definition), value


@pytest.mark.parametrize("known", EXPLAINED, ids=lambda known: f"{known.names[0]}-{known.here}")
def test_each_difference_is_still_there(known: Explained) -> None:
    for name in known.names:
        of = next(of for of, key in ALL if key.name == name)
        taken, refused = definitions()[of, name].taken, definitions()[of, name].refused
        differs = [*map(known.refuses, taken), *map(known.takes, refused)]
        assert known.is_default or any(differs)


def test_kafka_has_no_property_of_groupds_own() -> None:
    assert [name for name in OWN if ("broker", name) in definitions()] == []
    for name in OWN:
        assert "groupd's own" in KEYS["broker"][name].documentation


def test_every_property_of_a_broker_means_something_or_is_ignored() -> None:
    names = [name for of, name in definitions() if of == "broker"]
    assert len(names) > 300
    unknown = [name for name in names if not is_property(name) and not is_ignored_property(name)]
    assert unknown == []
    assert [name for name in names if is_property(name) and is_ignored_property(name)] == []


def test_every_property_of_a_topic_is_known() -> None:
    assert {name for of, name in definitions() if of == "topic"} == KEYS["topic"].keys()


# A start with a bad value


def refused(key: ConfigKey) -> list[str]:
    """The values that stop a start; each property has some."""
    found = [value for value in candidates(key) if not is_taken("broker", {key.name: value})]
    assert found, key
    return found


def shown(value: str) -> str:
    """Format a value as in messages, without the whitespace that property files drop."""
    value = value.strip()
    return value if value and value.isprintable() else repr(value)


def serve(*arguments: str, **environment: str) -> Result:
    """The command in this process. A start that is not refused would fail the test."""
    clean = {name: None for name in os.environ if name.startswith(("KAFKA_", "GROUPD_"))}
    return CliRunner().invoke(command, arguments, env={**clean, **environment})


@pytest.fixture(autouse=True)
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_daemon(*_: object) -> int:
        raise AssertionError("this starts")

    monkeypatch.setattr(coordinator.daemon, "run_daemon", run_daemon)


def check(result: Result, origin: str, key: ConfigKey, value: str) -> None:
    """Expect exit code 2 and one line that names source, property, value and accepted values."""
    assert result.exit_code == 2, (value, result)
    assert result.stdout == ""
    assert result.stderr.startswith(f"groupd: {origin}: "), (value, result.stderr)
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    line = result.stderr.rstrip("\n")
    assert line.isprintable()
    assert key.name in line
    try:
        key.parse(value)
    except InvalidConfig:
        assert (HIDDEN_PASSWORD if key.kind is ConfigType.PASSWORD else shown(value)) in line
        assert key.kind is not ConfigType.PASSWORD or value not in line
        assert line.endswith(f": it must be {key.allowed}")


@pytest.mark.parametrize("key", KEYS["broker"].values(), ids=lambda key: key.name)
def test_a_refused_value_stops_the_start_with_one_line(key: ConfigKey) -> None:
    for value in refused(key):
        check(serve("-o", f"{key.name}={value}"), f"-o {key.name}", key, value)


@pytest.mark.parametrize("key", KEYS["broker"].values(), ids=lambda key: key.name)
def test_the_line_says_where_the_value_came_from(key: ConfigKey, tmp_path: Path) -> None:
    value = refused(key)[0]
    variable = "KAFKA_" + key.name.replace(".", "_").upper()
    check(serve(**{variable: value}), variable, key, value)
    default = "GROUPD_DEFAULT_" + key.name.replace(".", "_").upper()
    check(serve(**{default: value}), default, key, value)
    file = tmp_path / "server.properties"
    file.write_text(f"{key.name}={value}\n")
    check(serve("--config", str(file)), str(file), key, value)


@pytest.mark.parametrize("older", SYNONYMS)
def test_an_older_name_is_refused_as_the_newer_one(older: str) -> None:
    key = KEYS["broker"][SYNONYMS[older]]
    value = refused(key)[0]
    check(serve("-o", f"{older}={value}"), f"-o {older}", key, value)


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--listen", "nonsense"), ("--advertise", "x"), ("--http", "x"), ("--data-dir", "a,b")],
)
def test_a_bad_flag_is_named_as_it_was_typed(flag: str, value: str) -> None:
    result = serve(flag, value)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"groupd: {flag}: ")
    assert value in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("group.min.session.timeout.ms=2000000",), ("group.max.session.timeout.ms", "1800000")),
        (("group.max.session.timeout.ms=100",), ("group.min.session.timeout.ms", "6000")),
        (("queued.max.request.bytes=5",), ("socket.request.max.bytes", "104857600")),
        (("max.connections.per.ip=0",), ("max.connections.per.ip.overrides",)),
        (("group.consumer.session.timeout.ms=44999",), ("group.consumer.min.session.timeout.ms", "45000")),
        (("group.consumer.session.timeout.ms=60001",), ("group.consumer.max.session.timeout.ms", "60000")),
        (
            ("group.consumer.heartbeat.interval.ms=4999",),
            ("group.consumer.min.heartbeat.interval.ms", "5000"),
        ),
        (("group.consumer.max.heartbeat.interval.ms=9",), ("group.consumer.heartbeat.interval.ms", "5000")),
        (("group.consumer.assignment.interval.ms=15001",), ("group.consumer.max.assignment.interval.ms",)),
        (
            (
                "group.consumer.heartbeat.interval.ms=45000",
                "group.consumer.max.heartbeat.interval.ms=45000",
            ),
            ("group.consumer.session.timeout.ms", "45000"),
        ),
        (("listeners=OTHER://:1",), ("listener.security.protocol.map",)),
        (("listeners=SSL://:1",), ("ssl.keystore.location",)),
        (("listeners=SASL_PLAINTEXT://:1",), ("sasl.enabled.mechanisms",)),
        (("http.tls.key=key.pem",), ("http.tls.certificate",)),
        (("connection.failed.authentication.delay.ms=600000",), ("connections.max.idle.ms", "600000")),
        (("advertised.listeners=OTHER://a:1",), ("OTHER",)),
    ],
)
def test_values_that_contradict_others_stop_the_start_naming_both(
    options: tuple[str, ...], named: tuple[str, ...]
) -> None:
    result = serve(*(part for option in options for part in ("-o", option)))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    for name in (options[0].partition("=")[0], *named):
        assert name in result.stderr


def test_both_sources_of_a_contradiction_are_named() -> None:
    result = serve("-o", "group.min.session.timeout.ms=9", KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS="8")
    assert result.stderr.startswith(
        "groupd: -o group.min.session.timeout.ms, KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS: "
    )


def test_a_value_cannot_break_the_line() -> None:
    for name in ("group.max.size", "listeners", "listener.security.protocol.map", "no.such"):
        result = serve("-o", f"{name}=5\nERROR \x1b[31m" + "x" * 10_000)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert result.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "option",
    [
        "group.initial.rebalance.delay.ms=-5",
        "max.connections.per.ip.overrides=no-such-host.invalid:1",
        f"listeners=PLAINTEXT://{'a' * 64}:1",
    ],
)
def test_a_process_says_so_too(option: str, tmp_path: Path) -> None:
    result = groupd("serve", "--http", "127.0.0.1:0", "--data-dir", str(tmp_path), "-o", option)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert option.partition("=")[0] in result.stderr
    assert result.stdout == ""


# The tests themselves


def test_a_property_without_values_to_try_is_noticed() -> None:
    with pytest.raises(KeyError):
        candidates(ConfigKey("new.property", ConfigType.STRING, "", "Something of a free form."))
