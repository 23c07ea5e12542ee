"""What is to be done, from what is seen."""
