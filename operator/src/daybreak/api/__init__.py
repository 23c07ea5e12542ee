"""API of Daybreak: kinds, fields, validation rules, and names of the objects that the operator creates."""
