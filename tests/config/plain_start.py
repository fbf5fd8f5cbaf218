"""Prints which modules a daemon without security has loaded when it has read its listeners: run as a module."""

import sys

import coordinator.cli.serve
import coordinator.daemon  # noqa: F401
from coordinator.config.listeners import parse_listeners
from coordinator.config.setting_sources import read_settings

if __name__ == "__main__":
    settings = read_settings(environment={"KAFKA_OPTS": "-Xmx1g"}, read=str)
    config = settings.parse()
    settings.create_listener_settings(config, parse_listeners(config)[0])
    print(*sorted(sys.modules), sep="\n")
