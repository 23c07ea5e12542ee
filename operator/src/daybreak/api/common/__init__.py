"""What every kind uses: names, conditions, sources of weights, engine arguments, and unstructured data."""
