"""What people ask for of Ray: a model, its weights cache and adapters, and the Ray pods."""
