"""What a custom resource is made of: base of the models, scalars, types of Kubernetes, and the CRD itself."""
