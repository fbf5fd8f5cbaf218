"""Tests of the computations of the newer group protocols."""
