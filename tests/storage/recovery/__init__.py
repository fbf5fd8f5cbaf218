"""Opening logs after a crash."""
