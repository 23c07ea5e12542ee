"""The API of Daybreak: the kinds, their fields and rules, and the names of what is made for them."""
