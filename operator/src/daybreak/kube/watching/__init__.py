"""Lists and watches of objects, and the cache of their last observed state."""
