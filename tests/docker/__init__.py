"""Tests of the image and of the files around groupd."""
