"""`python -m traintime.book`: `make book`, and the steps of its workflow."""

from traintime.book.commands import main

main()
