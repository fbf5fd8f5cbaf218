"""`groupd version`."""

import click

from coordinator import __version__


@click.command()
def command() -> None:
    """Print the version."""
    click.echo(__version__)
