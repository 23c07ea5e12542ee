"""GPU check without Kubernetes: test and measure the configuration that Daybreak generates.

`make gpu-check` renders a sample with the operator's own builders, and starts Ray's head and worker like
their pods. It gives the generated `serveConfigV2` to Ray Serve, sends requests to the model, and compares it
with `vllm serve` with the same engine arguments. It needs the packages of `images/ray`, and nothing from
outside the machine.
"""
