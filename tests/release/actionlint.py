"""actionlint, which checks workflow files: built once from the Go module proxy."""

from typing import Final

from tests.interop import build

MODULE: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def command() -> list[str]:
    """Return the command. Raises CannotBuild without Go, or without the module."""
    go = build.tool("go")
    target = build.once(
        "actionlint",
        [__file__],
        lambda fresh: build.run(["env", f"GOBIN={fresh}", go, "install", MODULE], fresh),
    )
    return [f"{target}/actionlint"]
