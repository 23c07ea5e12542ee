"""The operator: reconciles, writes, and what delays them."""
