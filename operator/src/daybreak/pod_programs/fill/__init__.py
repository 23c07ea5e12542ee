"""Copies a model's weights into a mounted PVC.

$DAYBREAK_FILL is JSON with `source` (a URL as in the spec), `revision`, `root` (mount path of the PVC) and
`directory` (target directory in the PVC). It also has `sole` (true if the PVC is for this model alone) and
`port`.

The weights are collected in a temporary directory, which is renamed when the copy is complete: a directory
with the file `.daybreak-complete` is complete. A new attempt continues with the files of an earlier one.
During the copy, the program reports progress at the port. GET /-/fill returns JSON with `directory`, `copied`
and `bytes`, which is null until the source is listed.

The result is written to $TERMINATION_LOG, from which Kubernetes copies it into the pod's status: JSON with
`bytes` and `revision`, or an error message. Exit status 2 means that a user must act; 1 means that a retry
may succeed.

The modules become one text (`pod_programs/text.py`), which `python3 -c` runs in the Ray image with the
standard library and that image's download libraries only.
"""

MODULES = ("files", "sources", "progress", "gather", "run")
"""Modules of the program, each after those that it imports."""
