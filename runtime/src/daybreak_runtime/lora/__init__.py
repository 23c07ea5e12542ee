"""LoRA adapters of a replica: fetched, checked and added to the engine while it serves.

The desired adapters are in the deployment's `user_config`, which Ray Serve sends to running replicas.
`adapters` reconciles the replica with it; each other module does one part of that for one adapter.
"""

from daybreak_runtime.lora.adapters import Adapters, Engine
from daybreak_runtime.lora.desired import DesiredAdapter, read

__all__ = ["Adapters", "DesiredAdapter", "Engine", "read"]
