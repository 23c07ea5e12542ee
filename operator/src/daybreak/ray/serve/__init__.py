"""Ray Serve's configuration: applications, deployments, replicas, routers, adapters."""
