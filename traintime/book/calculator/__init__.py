"""The calculator's page: the formula tier for the 2017 classifier, computed in the reader's browser, without a network.

`formulas` prints the package's formulas as JavaScript, `choices` is what the page offers and knows, `near` carries
measured steps over to sizes near them, `page` makes the HTML that the book includes.
"""
