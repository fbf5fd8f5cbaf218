"""Tests of what the newer group protocols compute."""
