"""Builds, checks and releases the distributions of this repository; see docs/releasing.md. No wheel contains it."""
