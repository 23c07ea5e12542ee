"""Code around the start of an engine; knows neither Ray nor vLLM."""
