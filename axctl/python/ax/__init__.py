"""What a job of ax can use from Python. Nothing here needs more than Python itself."""
