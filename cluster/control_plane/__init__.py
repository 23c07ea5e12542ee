"""Control plane of etcd and Kubernetes' servers: certificates, command lines, processes, fake nodes."""
