"""What the commands have in common that ask a running daemon over HTTP: asking, and printing answers."""
