"""`python -m tamis`."""

from tamis.doors.cli import main

main()
