"""On a machine with GPUs and without Kubernetes: does what Daybreak generates serve, and how does it compare.

`make gpu-check` renders a sample with the operator's own builders, starts Ray's head and worker as their pods
would, gives the generated `serveConfigV2` to Ray Serve, asks the model, and measures it beside `vllm serve`
with the same engine arguments. It needs the packages of images/ray, and nothing from outside the machine.
"""
