"""The reconcile loop of every workload behind a gateway: observe, plan, decide, apply, report."""
