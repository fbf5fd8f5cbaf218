"""What groupd costs, one file a question; `python -m benchmarks` runs them and writes RESULTS.md."""
