"""Parts of a custom resource: base of the models, scalars, Kubernetes types, and the CRD itself."""
