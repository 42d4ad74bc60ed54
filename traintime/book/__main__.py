"""`python -m traintime.book`: the steps of the book's workflow."""

from traintime.book.build import main

main()
