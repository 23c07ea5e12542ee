"""`make up` and `make down`: from a bare machine, or one's own cluster, to an answer of a model."""
