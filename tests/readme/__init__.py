"""What README.md says, played: pasted into terminals, read on their screens, ended with Ctrl-C."""
