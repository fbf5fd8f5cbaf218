"""Transcripts: the exact inputs and outputs of the group core in readable form."""
