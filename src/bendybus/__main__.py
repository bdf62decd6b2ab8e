"""`python -m bendybus` is the command `bendybus`."""

from bendybus.cli import main

main()
