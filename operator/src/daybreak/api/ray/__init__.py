"""API types for Ray: models, weight caches, LoRA adapters, and the Ray pods."""
