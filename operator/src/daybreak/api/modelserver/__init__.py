"""The kind ModelServer: its types, its rules, and the engines that it knows."""
