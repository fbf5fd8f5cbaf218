"""kfake, the fake cluster that franz-go is tested with, as a peer: the Go program and what starts it."""
