"""HAProxy of the namespace's common address: forwards each request to the service of its model."""
