"""What opening a log does before anybody reads it: finish what a crash interrupted, and find where the log ends."""
