"""What a test needs that a machine may lack."""

import os

import pytest


def lacking(reason: str) -> None:
    """Skip the test and print `reason`; with GROUPD_NO_SKIPS=1 fail it instead."""
    if os.environ.get("GROUPD_NO_SKIPS") == "1":
        pytest.fail(f"this machine lacks something and GROUPD_NO_SKIPS=1 forbids the skip: {reason}")
    pytest.skip(reason)
