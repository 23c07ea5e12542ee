"""The HAProxy of the namespace's one address: sends each request to the service of its model."""
