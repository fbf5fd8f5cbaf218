#!/bin/bash
# wurstmeister's images start with this script.
exec groupd serve "$@"
