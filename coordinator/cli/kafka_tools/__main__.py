"""`python -m coordinator.cli.kafka_tools TOOL [ARGUMENTS]`: what the image's links call, each with its own name."""

import sys

from coordinator.cli.kafka_tools.dispatch import TOOLS, main, tool_name
from coordinator.cli.main import ignore_library_warnings


def run_program() -> None:
    """Run the tool that the program is named after, else the one that the first argument names."""
    ignore_library_warnings()
    program, *arguments = sys.argv
    if tool_name(program) in TOOLS:
        sys.exit(main(program, arguments))
    sys.exit(main(arguments[0] if arguments else "", arguments[1:]))


if __name__ == "__main__":
    run_program()
