"""Module that the standby server of test_standby.py imports."""

from daybreak_runtime.ahead import standby

standby.import_all(["json", "no.such.module"])
