"""Looking at logs from outside, without opening them as their owner does: what is there, what is wrong."""
