"""etcd and Kubernetes' servers: certificates, command lines, starting them; nodes that exist only as objects."""
