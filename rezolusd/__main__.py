"""`python -m rezolusd`."""

from rezolusd.cli import main

main(prog_name="rezolusd")
