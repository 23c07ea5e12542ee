"""What holds of a replica's own port, against real Ray Serve and vLLM.

    python -m direct --replica URL --serve URL --dashboard URL --model NAME [--token-file FILE] [CHECK ...]

It needs addresses only: of the replica's own port, of Serve's proxy, and of the REST API on the head.
"""
