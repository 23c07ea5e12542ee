"""As what a model has answered: what tells whether its answer still counts."""

from dataclasses import dataclass

from daybreak.ray.views.ray_service_view import RayView


@dataclass(frozen=True)
class Fingerprint:
    """As what a model has answered."""

    cluster: str
    configuration: str
    generation: int
    """Generation of the RayService at that time. Not part of the identity: it tells a change of numbers that
    came later from a change of configuration that was still on its way when the model was asked."""

    def __str__(self) -> str:
        return f"{self.cluster}/{self.configuration}/{self.generation}"

    @classmethod
    def parse(cls, written: str) -> "Fingerprint | None":
        """Read one back; None when it is none."""
        parts = written.split("/")
        if len(parts) != 3 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]))

    @classmethod
    def now(cls, ray: RayView) -> "Fingerprint":
        """What a model would answer as at present."""
        return cls(ray.active, ray.configuration, ray.generation)

    def same(self, other: "Fingerprint") -> bool:
        """Whether an answer as the one is worth as much as an answer as the other."""
        return self.cluster == other.cluster and self.configuration == other.configuration
