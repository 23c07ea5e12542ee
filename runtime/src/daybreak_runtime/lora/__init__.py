"""LoRA adapters of a replica: fetched, checked and given to the engine while it serves.

Which adapters there shall be stands in the deployment's `user_config`, which Ray Serve hands to replicas that
run. `adapters` keeps what is there equal to that; the other modules each do one part of it for one adapter.
"""

from daybreak_runtime.lora.adapters import Adapters, Engine
from daybreak_runtime.lora.wanted import Wanted, read

__all__ = ["Adapters", "Engine", "Wanted", "read"]
