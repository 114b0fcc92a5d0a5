"""Students' code in a process of its own: started, locked, fed, listened to, and ended."""
