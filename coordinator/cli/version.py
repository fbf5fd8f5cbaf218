"""`groupd version`."""

import click


@click.command()
def command() -> None:
    """Print the version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(version("groupd"))
    except PackageNotFoundError:
        click.echo("not installed")
