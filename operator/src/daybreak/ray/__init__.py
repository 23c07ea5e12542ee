"""Objects and configuration for Ray and KubeRay, and views of their objects, as pure functions."""
