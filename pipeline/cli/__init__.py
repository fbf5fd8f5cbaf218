"""The command line `groupd-pipeline`.

Exit codes: 0 success, 2 bad input (with a one-line message), 130 interrupted, which is always safe.
"""

import sys
from typing import Final

import click

from pipeline.cli.build import build
from pipeline.cli.ingest import ingest
from pipeline.cli.report import report
from pipeline.cli.run import run
from pipeline.errors import BadInput
from storage.optional_dependencies import OptionalDependencyError
from storage.storage_errors import format_error_reason

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def cli() -> None:
    """Turns the offsets log of groupd or of a Kafka broker into tables and a report."""


for command in (ingest, build, report, run):
    cli.add_command(command)


def main() -> None:
    """Run the command."""
    if not __debug__:
        print(
            "groupd-pipeline: requires assertions: start Python without -O and PYTHONOPTIMIZE",
            file=sys.stderr,
        )
        sys.exit(BAD_INPUT)
    try:
        cli.main(standalone_mode=False)
    except (BadInput, OptionalDependencyError) as error:
        print(f"groupd-pipeline: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except OSError as error:
        print(f"groupd-pipeline: {format_error_reason(error)}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("groupd-pipeline: interrupted; the next run completes the unfinished step", file=sys.stderr)
        sys.exit(INTERRUPTED)
