"""The folder that `tests.stress` adds to PYTHONPATH."""
