"""Who somebody is, and what that one may do: pure, no socket, file or clock. The server carries it out."""
