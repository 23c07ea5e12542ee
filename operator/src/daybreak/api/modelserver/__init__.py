"""Types, rules and engines of the kind ModelServer."""
