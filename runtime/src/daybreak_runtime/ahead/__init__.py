"""Processes of vLLM that have imported it before they are needed."""
