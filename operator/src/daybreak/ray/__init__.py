"""What Ray and KubeRay understand: what is written for them, and how their objects are read. Pure."""
