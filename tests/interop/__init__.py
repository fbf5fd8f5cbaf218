"""Stock clients run their consumer groups over real sockets."""
