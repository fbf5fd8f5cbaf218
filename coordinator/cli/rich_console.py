"""Standard output as a terminal, or as a pager that shows colours."""

import sys

from rich.console import Console

from coordinator.cli.output import Output


def console_of(output: Output) -> Console:
    """Where rich writes. Its width is that of the terminal, now."""
    return Console(
        file=sys.stdout,
        force_terminal=output.is_terminal,
        color_system="standard" if output.is_colored else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
