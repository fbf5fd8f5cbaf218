"""Recovery of a log when it is opened: complete interrupted operations, and find the end of the log."""
