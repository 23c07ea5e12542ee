"""What every kind uses: types, rules, names, sources of weights, engine arguments, conditions, the CRD."""
