"""The snippets of README.md and of guides in docs/, played: pasted into terminals, read on their screens."""
