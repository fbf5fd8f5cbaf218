"""`groupd-pipeline cluster`."""

import contextlib

import click


@click.command()
@click.option("--workers", default=2, show_default=True, type=click.IntRange(min=1, max=64))
@click.option("--cores", default=1, show_default=True, type=click.IntRange(min=1), help="of each worker")
@click.option("--memory", default="1200m", show_default=True, metavar="SIZE", help="of each worker")
@click.option("--port", default=7077, show_default=True, type=click.IntRange(min=0, max=65535))
def cluster(workers: int, cores: int, memory: str, port: int) -> None:
    """Run a Spark cluster on this machine until Ctrl-C: give its URL to --master."""
    from pipeline.cluster import LocalCluster

    with LocalCluster(workers, cores, memory, port) as running, contextlib.suppress(KeyboardInterrupt):
        print(running.url, flush=True)
        running.wait()
