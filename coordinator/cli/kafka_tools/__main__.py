"""`python -m coordinator.cli.kafka_tools TOOL [ARGUMENTS]`: the command behind the image's links, each with its
own name."""

import sys
import warnings

from coordinator.cli.kafka_tools.dispatch import TOOLS, main, tool_name


def run_program() -> None:
    """Run the tool that the program is named after, else the one that the first argument names."""
    # Libraries address UserWarning to programmers, for example for an unusual country in a certificate.
    if not sys.warnoptions:
        warnings.simplefilter("ignore", UserWarning)
    program, *arguments = sys.argv
    if tool_name(program) in TOOLS:
        sys.exit(main(program, arguments))
    sys.exit(main(arguments[0] if arguments else "", arguments[1:]))


if __name__ == "__main__":
    run_program()
