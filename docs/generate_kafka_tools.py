"""Writes docs/kafka-tools.md: the tools of `groupd kafka-tools` with the options that their tables declare.

python -m docs.generate_kafka_tools
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Final

from coordinator.cli.kafka_tools.dispatch import TOOLS
from coordinator.cli.kafka_tools.tool_options import Option, OptionTable, Support, format_usage

_WIDTH: Final = 118
PAGE: Final = Path(__file__).with_name("kafka-tools.md")
_INTRODUCTION: Final = """# Kafka's tools

Generated from the code by `python -m docs.generate_kafka_tools`; a test fails when it is stale.

`groupd kafka-tools TOOL [ARGUMENTS]` runs a counterpart of one of Kafka's command-line tools, without Java. It
has the options, the output and the exit codes of the tool of Apache Kafka 4.4.0. Health checks and init
commands of compose files, and scripts, call it by Kafka's name: `kafka-topics` or `kafka-topics.sh`.

```sh
groupd kafka-tools kafka-topics --bootstrap-server localhost:9092 --create --if-not-exists --topic orders
echo hello | groupd kafka-tools kafka-console-producer --bootstrap-server localhost:9092 --topic orders
groupd kafka-tools kafka-console-consumer --bootstrap-server localhost:9092 --topic orders --from-beginning
```

| tool | does | exit code 1 |
|---|---|---|
"""
_FAILURES: Final = {
    "cub": "the brokers or the service are not ready in time",
    "kafka-acls": "usage, or the broker refused",
    "kafka-broker-api-versions": "usage, or no broker answers",
    "kafka-cluster": "usage, or no broker answers",
    "kafka-configs": "usage, or the broker refused",
    "kafka-console-consumer": "usage, or a broker refused",
    "kafka-console-producer": "usage, a line that cannot be parsed, or with `--sync` a record that is not written",
    "kafka-consumer-groups": "usage; an error of the broker is printed with exit code 0, as by Kafka's tool",
    "kafka-get-offsets": "usage, or no partition matches",
    "kafka-metadata-quorum": "usage, or no broker answers",
    "kafka-run-class": "another class, or that of the tool",
    "kafka-topics": "usage, or the broker refused",
    "nc": "a port does not accept connections",
}
_COMMON: Final = """## All tools

- An option that groupd's tool does not support ends the call with exit code 1 and a sentence that names it.
- `--command-config FILE` takes a client's properties, as for Kafka's tools: `security.protocol` with TLS,
  SASL/PLAIN and SASL/SCRAM, `sasl.jaas.config`, the stores of `ssl.`, `client.id`, `request.timeout.ms`,
  `default.api.timeout.ms`. Properties that tune the Java client have no effect.
- `--bootstrap-server` takes several addresses. Requests go to the leader of a partition and to the coordinator
  of a group, wherever these are. Where no broker answers, a tool tries again for `default.api.timeout.ms` (60
  s), as Kafka's do; the console consumer tries without limit.
- `--version` prints `4.4.0`, `--help` the options (with exit code 1, as Kafka's tools).
- A call takes 0.2 s of processor time.
- Kafka's stack traces are not printed. In an error of `kafka-configs` passwords are replaced by `[hidden]`.

## Options that name ZooKeeper

Kafka's tools before version 4 had `--zookeeper` (`kafka-topics`, `kafka-configs`, `kafka-console-consumer`,
`kafka-consumer-groups`), `--authorizer` and `--authorizer-properties` (`kafka-acls`). `cub kafka-ready` has `-z`.
Kafka's tools of 4.4.0 refuse these options, and so do groupd's. In [groupd's image](docker.md#kafkas-tools) they
are accepted, for compose files of older images. There they have no effect but a warning. The tool connects to a
broker that the container's variables name: `KAFKA_BOOTSTRAP_SERVERS`, or the first address of the listeners that
accepts a connection. Only listeners with the `security.protocol` of `--command-config` count, PLAINTEXT by
default. Next is the address that `cub kafka-ready -b` waited for in the same container. Without such a broker the
exit code is 1.

`kafka-configs` can write SCRAM credentials before groupd starts, in the container that is configured for it."""
_NOTES: Final[Mapping[str, Sequence[str]]] = {
    "kafka-acls": (
        "Without `--force`, `--remove` reads the answer from standard input; Kafka's tool needs a terminal.",
        "ACLs are printed in order; Kafka's tool prints them in an order that differs from run to run.",
    ),
    "kafka-broker-api-versions": (
        "An API that the broker serves and this version of groupd does not know is called UNKNOWN.",
    ),
    "kafka-configs": (
        (
            "Both SCRAM credentials of a user can be set in one call: they are sent as two requests, since brokers "
            "refuse two credentials of a user in one request. Kafka's own tool fails."
        ),
        (
            "groupd has no quotas: describing them prints nothing, setting one is Kafka's error for a broker "
            "without AlterClientQuotas."
        ),
        "[differences.md](differences.md) lists the broker configs that can change at runtime.",
    ),
    "kafka-console-consumer": (
        "`--whitelist` is the name of `--include` before Kafka 4.",
        (
            "A member of a group speaks the classic protocol and offers the range assignor; it shares a group with "
            "any other consumer that offers range. `group.protocol=consumer` has no effect."
        ),
        (
            "Formatters: `DefaultMessageFormatter` and `NoOpMessageFormatter`. Deserializers: strings, byte "
            "arrays, integers, longs, shorts, floats, doubles."
        ),
        "On SIGTERM and Ctrl-C the consumer commits, leaves its group, and ends with 143 or 130, as Kafka's tool.",
    ),
    "kafka-console-producer": (
        "`--broker-list` is the name of `--bootstrap-server` before Kafka 4.",
        "The producer is not idempotent: a record may be written twice where a connection breaks.",
        "`--request-required-acks 0` waits for an answer, like 1.",
        "Records without a key go to one random partition for each request.",
    ),
    "kafka-consumer-groups": ("`--validate-regex` uses groupd's own check, with the messages of RE2/J.",),
    "kafka-get-offsets": ("`--broker-list` is the name of `--bootstrap-server` before Kafka 4.",),
    "kafka-topics": (
        "Regular expressions of `--topic` are Python's; they agree with Java's in what names of topics need.",
    ),
}
_REST: Final = """## kafka-cluster

`kafka-cluster cluster-id -b HOST:PORT` (or `--bootstrap-server`; `-c`, `--command-config`, `--config` for a
file of properties). `unregister`, `list-endpoints`, `api-versions` and controllers are not supported.

## kafka-metadata-quorum

`kafka-metadata-quorum --bootstrap-server HOST:PORT describe --status`, for health checks. groupd has no
metadata quorum and does not serve DescribeQuorum, so that Kafka's own tool fails. This tool prints the cluster
id, the controller of the Metadata response, and the brokers as voters; LeaderEpoch, HighWatermark and the lags
are -1, and a line on standard error says so. `describe --replication`, `add-controller` and `remove-controller`
are not supported.

## cub

`cub kafka-ready -b HOST:PORT NUMBER TIMEOUT` waits until NUMBER brokers are there, for TIMEOUT seconds at most;
`-c FILE` and `-s PROTOCOL` say how they are reached. `cub zk-ready` succeeds with a line that says that groupd
needs no ZooKeeper.

`cub sr-ready HOST PORT TIMEOUT` waits until a Schema Registry answers; `kr-ready` does so for the REST proxy,
`connect-ready` for Kafka Connect, `ksql-server-ready` for ksqlDB and `control-center-ready` for Control Center.
`--secure` selects https, `--ignore_cert` accepts any certificate, and `--username` with `--password` log in.
Confluent's `cub` sends one request when the port is open; this one repeats it until the timeout.

## kafka-run-class

`kafka-run-class CLASS [ARGUMENTS]` runs the tool of a Java class, as scripts for older releases do:
`kafka-run-class kafka.tools.GetOffsetShell --broker-list HOST:PORT --topic TOPIC`. The classes are those of the
tools above, in any package of Kafka.

## nc

`nc -z HOST PORT` (also several ports, or FIRST-LAST) tests TCP ports; `-v`, `-n`, `-4`, `-6` and `-w SECONDS`
work, other modes of netcat do not.

## How this is tested

`tests/kafka_tools/recorded` has stories of some 300 calls: the arguments, and what Kafka's own tools of 4.4.0
printed against groupd, with their exit codes (`make kafka-tools-record` records them anew). `make test` plays
them with groupd's tools and compares; `make test-extended` has both tools call the same broker and compares to
the last blank."""


def page() -> str:
    """Return the page as it should be."""
    rows = [f"| `{name}` | {tool.summary.rstrip('.')} | {_FAILURES[name]} |" for name, tool in TOOLS.items()]
    sections = []
    for name, tool in TOOLS.items():
        table: OptionTable | None = import_module(f"coordinator.cli.kafka_tools.{tool.module}").OPTIONS
        if table is not None:
            sections.append(_section(name, table))
    return "\n".join([_INTRODUCTION + "\n".join(rows) + "\n", _COMMON.rstrip() + "\n", *sections, _REST])


def _section(name: str, table: OptionTable) -> str:
    rows = [f"| `{format_usage(option)}` | {option.help} |" for option in _listed(table, Support.FULL)]
    lines = [
        f"## {name}\n",
        *(["| option | does |", "|---|---|", *rows] if rows else ["It has no other options."]),
    ]
    for support, sentence in (
        (Support.IGNORED, "Accepted, without effect"),
        (Support.NONE, "Not supported"),
    ):
        names = [f"`--{option.name}`" for option in _listed(table, support)]
        lines += ["\n" + _fill(f"{sentence}: {', '.join(names)}.")] if names else []
    lines += ["", *(_fill(f"- {note}", "  ") for note in _NOTES.get(name, ()))]
    return "\n".join(lines).rstrip() + "\n"


def _fill(text: str, indent: str = "") -> str:
    return fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _listed(table: OptionTable, support: Support) -> list[Option]:
    return [
        option
        for option in table.options
        if option.support is support
        and option.name not in ("help", "version", "bootstrap-server", "command-config")
    ]


if __name__ == "__main__":
    PAGE.write_text(page())
