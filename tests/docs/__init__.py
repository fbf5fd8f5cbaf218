"""Tests of the documents: links, named tests, generated pages, diagrams."""
