"""`python -m traintime`: the command line where the package is not installed."""

from traintime.cli import main

main()
