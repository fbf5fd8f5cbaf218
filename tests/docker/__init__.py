"""Tests of what the image has besides groupd."""
