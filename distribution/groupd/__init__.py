"""groupd: a standalone Kafka group coordinator.

An installation adds this one import name. The daemon, its commands and the pipeline are subpackages, such as
`groupd.coordinator`: importing `groupd` does not load them, and their modules may change in any version.
"""

from typing import Final

__version__: Final = "0.1.0"

try:
    from groupd.checkout import install_finder
except ModuleNotFoundError as error:
    # A wheel, or an archive of one: it has the packages, and no `checkout`.
    if error.name != f"{__name__}.checkout":
        raise
else:
    # An editable installation: the packages are still at the top of the repository.
    install_finder()
