"""How a change reaches what runs: which strategy, how far it is, and the way back. Knows no kind."""
