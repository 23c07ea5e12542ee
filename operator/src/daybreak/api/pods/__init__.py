"""User additions to pods, and the fields that Daybreak owns."""
