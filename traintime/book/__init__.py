"""What chapters call, and what makes pages of them."""
