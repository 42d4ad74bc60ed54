"""Dense Adam's training of a table at the price of the rows that a batch uses."""
