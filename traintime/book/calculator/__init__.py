"""The calculator's page: the formula tier for the 2017 classifier, computed in the reader's browser, without a network.

`formulas` prints what Python computes as JavaScript, `choices` is what the page offers, `answer` is what Python says
to the same settings, `page` makes the HTML that the book includes.
"""
