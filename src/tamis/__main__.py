"""`python -m tamis`."""

from tamis.cli.main import main

main()
