"""Commands `make up` and `make down`: from a bare machine, or the user's cluster, to a model's answer."""
