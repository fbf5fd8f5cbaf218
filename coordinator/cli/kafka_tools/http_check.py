"""The check of an HTTP service for `cub`. The module loads urllib3, so the tool imports it only when needed."""

from typing import Final

import urllib3
from urllib3.exceptions import HTTPError

_REQUEST_TIMEOUT_S: Final = 10.0
_SHOWN_CHARACTERS: Final = 200


class HttpCheck:
    """A GET request to `url`, and a part of the response of a ready service."""

    def __init__(
        self, url: str, expected_part: str, *, credentials: tuple[str, str], verifies_certificate: bool
    ) -> None:
        """Create a check.

        Args:
            url: the address.
            expected_part: text in the response of a ready service.
            credentials: name and password of HTTP basic authentication; empty without.
            verifies_certificate: whether the certificate must be valid.
        """
        self.url: Final = url
        self._expected_part = expected_part
        name, password = credentials
        self._pool = urllib3.PoolManager(
            retries=False,
            headers=urllib3.make_headers(basic_auth=f"{name}:{password}") if name or password else None,
            timeout=_REQUEST_TIMEOUT_S,
            cert_reqs="CERT_REQUIRED" if verifies_certificate else "CERT_NONE",
        )
        if not verifies_certificate:
            urllib3.disable_warnings()

    def find_problem(self) -> str:
        """Send the request. Return the problem of the response, or "" if the service is ready."""
        try:
            response = self._pool.request("GET", self.url)
        except HTTPError as error:
            return str(error)
        text = response.data.decode(errors="replace")
        if 200 <= response.status < 300 and self._expected_part in text:
            return ""
        return f"the answer has the status {response.status} and begins with {text[:_SHOWN_CHARACTERS]!r}"
