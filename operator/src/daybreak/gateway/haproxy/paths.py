"""Paths of model requests and health checks."""

HEALTH_PATH = "/health"
"""Path at which clients check the address, with GET or HEAD: the gateway answers 200."""
BALANCER_PATH = "/ping"
"""Path for load balancers that reach gateway pods directly: 503 while the pod terminates."""
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/audio/transcriptions",
    "/v1/score",
    "/tokenize",
    "/detokenize",
)
"""Paths of model requests, with POST, that both Ray Serve LLM's ingress and vLLM's own server answer."""
SCORE_PATHS = ("/v1/score", "/score", "/rerank", "/v1/rerank", "/v2/rerank")
"""Paths on which vLLM 0.29 shares state between requests of one `X-Request-Id`."""
REPLICA_PATHS = (
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/audio/translations",
    "/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/classify",
    "/pooling",
    "/v2/embed",
)
"""Paths of model requests, with POST, that only vLLM's own server answers: the direct port of a replica."""
