"""The extras of groupd, and one sentence for a feature that lacks the packages of its extra.

The module is here because the daemon and the pipeline share no other package.
"""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

EXTRAS: Final = {
    "cluster": {"grpcio": "grpc", "protobuf": "google.protobuf"},
    "jks": {"purejks": "jks"},
    "otel": {
        "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry-sdk": "opentelemetry.sdk",
    },
    "pipeline": {
        "jinja2": "jinja2",
        "matplotlib": "matplotlib",
        "numpy": "numpy",
        "pandas": "pandas",
        "pyarrow": "pyarrow",
        "pyspark": "pyspark",
    },
}
"""The distributions of each extra in pyproject.toml, each with a module that it installs."""
_OWN_PACKAGES: Final = frozenset({"coordinator", "groupd", "pipeline", "protocol", "storage"})


class OptionalDependencyError(Exception):
    """An extra is not installed, or is damaged. The text is one line that ends with the command to install it."""


@contextmanager
def require_extra(extra: str, feature: str) -> Iterator[None]:
    """Check that an extra is installed before the body imports modules that need it.

    `extra` is a key of EXTRAS. `feature` is the command, property or variable that needs it, and begins the
    error message. Raises OptionalDependencyError before the body if a distribution is missing, and in place
    of an ImportError in the body, except for modules of groupd.
    """
    missing = [name for name, module in EXTRAS[extra].items() if not _is_installed(module)]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        raise OptionalDependencyError(
            f"{feature} needs {', '.join(missing)}, which {be} not installed. "
            f"Install the extra {extra}: {_format_install_command(extra)}"
        )
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise  # a defect of groupd
        raise OptionalDependencyError(
            f"{feature} cannot import the extra {extra}: {error}. "
            f"Install it again: {_format_install_command(extra)}"
        ) from error


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package of the module is missing
        return False


def _format_install_command(extra: str) -> str:
    """Return a shell command that adds an extra to the running Python's environment.

    pip and uv add the extra to the groupd that is installed, also from a clone or a wheel file. They do not
    look for groupd in an index.
    """
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python} 'groupd[{extra}]'"
    return f"{python} -m pip install 'groupd[{extra}]'"
