"""Why something does not start, in words for the person who can act, without secrets. Pure."""
