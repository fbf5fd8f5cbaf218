"""What a container engine answers to the modules of Testcontainers, on a machine that has none: a "container" is a
process in a directory that is laid out as the image."""
