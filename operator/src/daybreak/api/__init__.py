"""The API of Daybreak: its kinds, their fields and rules, and the names of what is made for them."""
