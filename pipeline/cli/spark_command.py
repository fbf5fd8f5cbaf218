"""The class of commands that run Spark."""

from typing import Any

import click

from storage.optional_dependencies import require_extra


class SparkCommand(click.Command):
    """A command that needs the extra `pipeline`, except for `--help` and errors in its options."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command. Raises OptionalDependencyError if the extra is missing, before any work is done."""
        with require_extra("pipeline", context.info_name or "groupd-pipeline"):
            return super().invoke(context)
