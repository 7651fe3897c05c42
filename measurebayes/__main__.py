"""`python -m measurebayes`."""

from measurebayes.cli import main

main()
