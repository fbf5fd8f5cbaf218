"""`groupd serve`: the daemon."""

import gc
import os
import sys

import click

from coordinator.cli.given_settings import given_settings
from coordinator.cli.topics_option import topics_option
from coordinator.config.errors import ConfigError
from coordinator.config.properties import PROPERTIES, Config
from coordinator.config.settings import Settings
from coordinator.config.sources import PROFILES

EPILOG = """Properties have Kafka's names and defaults (group.initial.rebalance.delay.ms, ...). Later sources win:
defaults, --profile, --config, the environment (KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS), -o, named options.

When every group is loaded, one line goes to standard output:
groupd ready kafka=HOST:PORT http=HOST:PORT data=DIR (http=off where there is none). The log goes to standard error.
SIGTERM and SIGINT stop the daemon cleanly.

With -o cluster.etcd.endpoints=HOST:PORT,... and CLUSTER_ID in the environment it is a broker of a cluster, with a
node.id, a directory and an --advertise of its own (docs/cluster.md).

Exit codes: 0 stopped, 1 a failure while running, 2 it cannot start."""


def _default(name: str) -> str:
    """A property's default, for a help text; a listener's without its name."""
    return f"[default: {PROPERTIES[name].default.removeprefix('PLAINTEXT://')}]"


@click.command(epilog=EPILOG)
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help=f"Where clients connect. {_default('listeners')}",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="HOST:PORT",
    help="What clients are told to connect to. [default: the listener; for a wildcard, what the client used]",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help=f"Where /health, /ready, /metrics are; `off` for nowhere. {_default('http.listener')}",
)
@click.option("--data-dir", metavar="DIR", help=f"Where topics and offsets are kept. {_default('log.dirs')}")
@topics_option(help_text="Create a topic, or grow it; may be repeated.")
@click.option(
    "--config", "config_file", metavar="FILE", help="A properties file in Java's form, as Kafka's own."
)
@click.option("-o", "options", multiple=True, metavar="NAME=VALUE", help="Set a property; may be repeated.")
@click.option(
    "--profile",
    type=click.Choice(sorted(PROFILES)),
    help="`test`: no initial rebalance delay, sessions from 100 ms, consumer group heartbeats every 500 ms.",
)
@click.option(
    "--brokers",
    type=int,
    default=1,
    metavar="N",
    help="Serve as so many brokers in this process, each a port above the one before; for tests of clients.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What goes to the log.",
)
def command(
    listen: tuple[str, ...],
    advertise: tuple[str, ...],
    http: str | None,
    data_dir: str | None,
    topics: list[tuple[str, int]],
    config_file: str | None,
    options: tuple[str, ...],
    profile: str | None,
    brokers: int,
    log_level: str,
) -> None:
    """Run the daemon."""
    flags: dict[str, str] = {}
    if listen:
        flags["listeners"] = ",".join(listen)
    if advertise:
        flags["advertised.listeners"] = ",".join(advertise)
    if http is not None:
        flags["http.listener"] = http
    if data_dir is not None:
        flags["log.dirs"] = data_dir
    try:
        settings = given_settings(config_file, options, profile, flags)
        config = settings.parse()
        sys.exit(_run(config, settings, topics, brokers, log_level))
    except ConfigError as error:
        click.echo(f"groupd: {error}", err=True)
        sys.exit(2)


def _run(
    config: Config, settings: Settings, topics: list[tuple[str, int]], brokers: int, log_level: str
) -> int:
    # Nothing that a start makes is garbage; the server switches the collector on when everything is loaded.
    gc.disable()
    from coordinator.config.broker_listeners import check_brokers
    from coordinator.config.broker_racks import racks_of
    from coordinator.config.listeners import access_notices, parse_listeners
    from coordinator.daemon import run_daemon
    from coordinator.logger import start_log
    from coordinator.server.settings import ServerSettings

    start_log(log_level.upper())
    listeners, closed = parse_listeners(config)
    check_brokers(listeners, brokers)
    racks_of(config.broker_rack, brokers)
    server_settings = ServerSettings(
        config=config,
        listeners=listeners,
        data_dir=os.path.abspath(config.log_dirs[0]),
        topics=topics,
        properties=settings.texts,
        cluster_id=settings.cluster_id,
        security=settings.security(config, listeners),
        brokers=brokers,
        initial_topics=settings.initial_topics,
        in_image=settings.in_image,
    )
    notices = settings.start_notices(closed, brokers)
    return run_daemon(
        server_settings, [*notices, *access_notices(config, listeners, in_image=settings.in_image)]
    )
