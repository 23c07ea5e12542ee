"""Ray Serve's configuration: applications, deployments, replicas, routers and adapters."""
