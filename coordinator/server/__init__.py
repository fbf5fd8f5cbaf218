"""The shell: sockets, clocks, timers and the disk around the pure core and the data plane."""
