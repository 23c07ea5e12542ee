"""Copies a model's weights into a mounted claim.

$DAYBREAK_FILL is JSON: `source` (a URL as in the spec), `revision`, `root` (where the claim is mounted),
`directory` (where in it the weights belong), `sole` (whether the claim is for this model alone) and `port`.
The weights are gathered in a directory of another name, which gets its own when everything is there: a
directory of that name with the file `.daybreak-complete` in it is whole. What an earlier try has left is
taken up. At the port it tells meanwhile how far it is: GET /-/fill gives JSON with `directory`, `copied` and
`bytes`, which is null until the source is listed.

What is to be told goes to $TERMINATION_LOG, from where Kubernetes takes it into the pod's status: JSON with
`bytes` and `revision`, or what went wrong. Exit status 2 says that somebody has to act, 1 that it may pass.

Its modules become one text (`pod_programs/text.py`), which is run by `python3 -c` in the Ray image: the
standard library, what that image has for downloads, and nothing else.
"""

MODULES = ("files", "sources", "progress", "gather", "run")
"""Each after those that it imports."""
