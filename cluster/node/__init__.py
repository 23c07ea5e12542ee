"""The one real node: kubelet, containers, addresses and control groups."""
