"""Which names lead where, from what is seen."""
