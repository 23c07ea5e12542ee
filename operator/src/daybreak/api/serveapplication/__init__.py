"""The kind ServeApplication: its types, its rules, and the worker groups that follow from them."""
