"""Node of the cluster: kubelet, containers, addresses and cgroups."""
