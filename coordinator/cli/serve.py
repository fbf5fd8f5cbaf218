"""`groupd serve`: the daemon."""

import gc
import os
import sys

import click

from coordinator.cli.click_extensions import topics_option
from coordinator.cli.settings_loader import load_settings
from coordinator.config.config_errors import ConfigError, StartNotice
from coordinator.config.properties import PROPERTIES, Config
from coordinator.config.setting_sources import PROFILES
from coordinator.config.settings import Settings

EPILOG = """Properties have Kafka's names and defaults (group.initial.rebalance.delay.ms, ...). Later sources win:
defaults, --profile, --config, the environment (KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS), -o, named options.

When every group is loaded, one line goes to standard output: groupd ready kafka=HOST:PORT http=HOST:PORT
data=DIR (http=off without an HTTP port). The log goes to standard error. SIGTERM and SIGINT stop the daemon
cleanly.

With -o cluster.etcd.endpoints=HOST:PORT,... and CLUSTER_ID in the environment the daemon is a broker of a
cluster. It needs its own node.id, directory and --advertise (docs/cluster.md).

Exit codes: 0 stopped, 1 a failure while running, 2 it cannot start."""


def _format_default(name: str) -> str:
    """Return the default of a property for a help text, without the name of a listener."""
    return f"[default: {PROPERTIES[name].default.removeprefix('PLAINTEXT://')}]"


@click.command(epilog=EPILOG)
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help=f"Address for clients. {_format_default('listeners')}",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="HOST:PORT",
    help="Address for clients. [default: the listener; for a wildcard, the address that the client used]",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help=f"Address of the HTTP port; `off` disables it. {_format_default('http.listener')}",
)
@click.option("--data-dir", metavar="DIR", help=f"The data directory. {_format_default('log.dirs')}")
@topics_option(help_text="Create a topic, or add partitions; may be repeated.")
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
    help="Number of brokers in this process, with consecutive ports; for tests of clients.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Level of the log.",
)
def serve(
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
    """Run the daemon until a signal stops it."""
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
        settings = load_settings(config_file, options, profile, flags)
        config = settings.parse()
        sys.exit(_run_server(config, settings, topics, brokers, log_level))
    except ConfigError as error:
        click.echo(f"groupd: {error}", err=True)
        sys.exit(2)


def _run_server(
    config: Config, settings: Settings, topics: list[tuple[str, int]], brokers: int, log_level: str
) -> int:
    # A start creates no garbage. The server enables the collector when everything is loaded.
    gc.disable()
    from coordinator.broker.server_settings import ServerSettings
    from coordinator.config.in_process_brokers import find_port_step, parse_racks
    from coordinator.config.listeners import create_access_notices, parse_listeners
    from coordinator.core.daemon_log import start_log
    from coordinator.daemon import run_daemon

    start_log(log_level.upper())
    listeners, closed = parse_listeners(config)
    step = find_port_step(listeners, brokers)
    parse_racks(config.broker_rack, brokers)
    server_settings = ServerSettings(
        config=config,
        listeners=listeners,
        data_dir=os.path.abspath(config.log_dirs[0]),
        topics=topics,
        properties=settings.texts,
        cluster_id=settings.cluster_id,
        security=settings.create_listener_settings(config, listeners),
        brokers=brokers,
        initial_topics=settings.initial_topics,
        in_image=settings.in_image,
    )
    notices = settings.start_notices(closed, brokers)
    if step > 1:
        text = f"The ports of one broker and the next are {step} apart, so that listeners do not share a port"
        notices.insert(0, StartNotice(text, is_warning=False))
    return run_daemon(
        server_settings, [*notices, *create_access_notices(config, listeners, in_image=settings.in_image)]
    )
