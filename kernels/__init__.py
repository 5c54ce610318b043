"""Sources of the native library. Only the oracles and checks below are Python; none of it ships in the wheel."""
