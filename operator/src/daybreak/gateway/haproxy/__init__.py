"""HAProxy as a program: start it, end it, talk to its socket; errors and paths of all of them."""
