"""The kind LLMRoute: names that clients send as a model, and that models of several services share."""
