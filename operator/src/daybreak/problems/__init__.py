"""Problems that prevent a start, in messages for the person who can act, without secrets. Pure."""
