"""etcd and Kubernetes' servers: certificates, command lines, starting them; fake nodes."""
