"""Fingerprint of the state in which a model answered, to check whether its answer is still valid."""

from dataclasses import dataclass

from daybreak.ray.views.ray_service_view import RayView


@dataclass(frozen=True)
class Fingerprint:
    """State in which a model answered."""

    cluster: str
    configuration: str
    generation: int
    """Generation of the RayService at that time. Not part of the identity. It distinguishes a later change of
    numbers from a change of configuration that was still in progress when the model was probed."""

    def __str__(self) -> str:
        return f"{self.cluster}/{self.configuration}/{self.generation}"

    @classmethod
    def parse(cls, written: str) -> "Fingerprint | None":
        """Parse a fingerprint, or return None if it is malformed."""
        parts = written.split("/")
        if len(parts) != 3 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]))

    @classmethod
    def now(cls, ray: RayView) -> "Fingerprint":
        """Return the fingerprint of an answer in the current state."""
        return cls(ray.active, ray.configuration, ray.generation)

    def same(self, other: "Fingerprint") -> bool:
        """Return True if answers with the two fingerprints are equivalent."""
        return self.cluster == other.cluster and self.configuration == other.configuration
