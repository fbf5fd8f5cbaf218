"""Transcripts: what goes into the group core and exactly what comes out, readable as stories."""
